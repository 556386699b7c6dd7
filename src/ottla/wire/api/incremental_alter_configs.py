"""IncrementalAlterConfigs: set (0), delete (1), append to (2) or subtract from (3) single configs (KIP-339).

v1 is flexible.
"""

from ottla.wire.api import INCREMENTAL_ALTER_CONFIGS
from ottla.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable_since=0)


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Request, api=INCREMENTAL_ALTER_CONFIGS):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Response, api=INCREMENTAL_ALTER_CONFIGS):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
