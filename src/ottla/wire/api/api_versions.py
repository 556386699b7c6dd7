"""ApiVersions: the APIs and versions of this broker. It is the first request on nearly every connection.

If a broker does not know the requested version, it replies with v0, its list and UNSUPPORTED_VERSION, and the client
retries. v3 is flexible, has the name of the client's software (KIP-511) and lists features (KIP-584); v4 may list
features whose lowest version is 0.
"""

from ottla.wire.api import API_VERSIONS
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Request, api=API_VERSIONS):
    client_software_name: str = string(since=3)
    client_software_version: str = string(since=3)


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Response, api=API_VERSIONS):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, since=3, tag=0)
    finalized_features_epoch: int = int64(since=3, default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, since=3, tag=2)
    zk_migration_ready: bool = boolean(since=3, tag=3)
