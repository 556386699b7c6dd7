"""DeleteTopics: delete topics by name, from v6 also by id (KIP-516).

v4 is flexible; v5 adds error messages and may be throttled (KIP-599).
"""

from ottla.model import TopicId
from ottla.wire.api import DELETE_TOPICS
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    name: str | None = string(nullable_since=0, default=None)
    topic_id: TopicId = uuid()


class DeleteTopicsRequest(Request, api=DELETE_TOPICS):
    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(string(), until=5)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable_since=6)
    topic_id: TopicId = uuid(since=6)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable_since=0, default=None)


class DeleteTopicsResponse(Response, api=DELETE_TOPICS):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
