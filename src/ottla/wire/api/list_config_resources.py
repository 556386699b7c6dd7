"""ListConfigResources: the names of resources that have configs (KIP-1142).

v0 is the former ListClientMetricsResources (KIP-1000), so the type defaults to 16, client metrics.
"""

from ottla.wire.api import LIST_CONFIG_RESOURCES
from ottla.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Request, api=LIST_CONFIG_RESOURCES):
    resource_types: list[int] = array(int8(), since=1)


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8(since=1, default=16)


class ListConfigResourcesResponse(Response, api=LIST_CONFIG_RESOURCES):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
