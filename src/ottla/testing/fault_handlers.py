"""The handlers of a broker for tests: those of every broker, each behind the faults that a test plans."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.errors import ErrorCode
from ottla.handlers.exchange import CloseConnectionError, Exchange, PendingReply
from ottla.handlers.registry import HANDLERS, Served
from ottla.testing.faults import TOOLS_CLIENT_ID, Delay, Fail, Fault, Faults
from ottla.testing.messages import error_places, error_response, topics_named
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.codec import encoder_of
from ottla.wire.schema import Response, Struct

if TYPE_CHECKING:
    from ottla.env.network import Part
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Completion, Reply

_UNAFFECTED = re.compile(rf"{TOOLS_CLIENT_ID}|broker-\d+(-fetcher)?")
"""The client ids of the tools, and of brokers that follow a leader or ask each other."""

_DESCRIBE = ("Metadata", "DescribeLogDirs", "DescribeTopicPartitions")
"""The APIs whose requests need not name the items that the response lists. Their errors are put into a real response,
because clients also need the rest of it: without brokers, a Metadata response is useless."""

_ERRORS_OF_WHOLE_RESPONSES = {
    "Fetch": (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ),
    "Metadata": (ErrorCode.REBOOTSTRAP_REQUIRED,),
}
"""Other errors of these APIs go only to topics and partitions: if the error code of the whole response is set, clients
ignore the rest of it."""

_FETCH_SESSION_EPOCH = [field.name for field in FetchRequest.__fields__].index("session_epoch")
_PRODUCE_ACKS = [field.name for field in ProduceRequest.__fields__].index("acks")


def handlers_with(faults: Sequence[Faults]) -> Mapping[int, Served]:
    """The table of all APIs. Their requests first meet the faults, in the given order."""
    return {key: served._replace(handle=functools.partial(_handle, faults, served)) for key, served in HANDLERS.items()}


def _handle(faults: Sequence[Faults], served: Served, broker: Broker, exchange: Exchange, request: Any) -> Reply:
    planned = [fault for each in faults for fault in each.active if fault.api == served.api.name]
    if not planned or _UNAFFECTED.fullmatch(exchange.client_id or ""):
        return served.handle(broker, exchange, request)
    if served.api.name == "Fetch" and _hides_partitions(request) and any(map(_needs_partitions, planned)):
        return _encode(exchange, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    named = _topics(served, broker, exchange, request)
    fault = next((fault for fault in planned if fault.topic is None or fault.topic in named), None)
    if fault is None:
        return served.handle(broker, exchange, request)
    return _apply(fault, served, broker, exchange, request)


def _apply(fault: Fault, served: Served, broker: Broker, exchange: Exchange, request: Any) -> Reply:
    effect = fault.effect
    if isinstance(effect, Fail):
        return _fail(fault, effect.code, served, broker, exchange, request)
    if not fault.fire():
        return served.handle(broker, exchange, request)
    if isinstance(effect, Delay):
        return _delay(broker, exchange, served.handle(broker, exchange, request), effect.seconds)
    if effect.after:
        return _hang_up_after(exchange, served.handle(broker, exchange, request))
    raise CloseConnectionError(f"a test drops the connection before {exchange} is processed")


def _hides_partitions(request: Any) -> bool:
    """Whether a Fetch request names only the partitions that changed since the last one of its session."""
    session_epoch: int = request[_FETCH_SESSION_EPOCH]
    return session_epoch > 0


def _needs_partitions(fault: Fault) -> bool:
    """Whether a fault needs a Fetch request that names all of its partitions. The broker then ends the session of the
    client, and the client begins a new one with such a request."""
    return fault.topic is not None or isinstance(fault.effect, Fail)


def _topics(served: Served, broker: Broker, exchange: Exchange, request: Any) -> set[str]:
    names: set[str] = set()
    for topic in topics_named(served.request, request, exchange.api_version):
        if isinstance(topic, bytes):
            state = broker.metadata.image.topic_by_id(topic)
            topic = "" if state is None else state.name
        names.add(topic)
    return names


# Errors


def _fail(fault: Fault, code: ErrorCode, served: Served, broker: Broker, exchange: Exchange, request: Any) -> Reply:
    name, version = served.api.name, exchange.api_version
    if name in _DESCRIBE:
        return _fail_described(fault, code, served, broker, exchange, request)
    if name == "Produce" and request[_PRODUCE_ACKS] == 0:
        if fault.fire():
            raise CloseConnectionError(f"{code.name} for a Produce without acks, injected by a test")
        return served.handle(broker, exchange, request)
    response = error_response(served.request, request, served.api.response, version)
    places = _places(response, exchange, code)
    if not places or not fault.fire():
        return served.handle(broker, exchange, request)
    for struct, field in places:
        setattr(struct, field, code)
    return _encode(exchange, response)


async def _fail_described(
    fault: Fault, code: ErrorCode, served: Served, broker: Broker, exchange: Exchange, request: Any
) -> Response:
    if isinstance(request, MetadataRequest):
        request.allow_auto_topic_creation = False
    reply = served.handle(broker, exchange, request)
    response = await reply if isinstance(reply, Awaitable) else reply
    assert isinstance(response, Response), "these handlers return objects"
    places = _places(response, exchange, code)
    if places and fault.fire():
        for struct, field in places:
            setattr(struct, field, code)
    return response


def _places(response: Response, exchange: Exchange, code: ErrorCode) -> list[tuple[Struct, str]]:
    """The places of the response for this error."""
    whole = _ERRORS_OF_WHOLE_RESPONSES.get(exchange.api.name)
    places = error_places(response, exchange.api_version)
    return [place for place in places if whole is None or code in whole or place[0] is not response]


def _encode(exchange: Exchange, response: Response) -> list[Part]:
    """Encode an object, also for an API that encodes its responses from tuples."""
    call = exchange.call
    encode = encoder_of(call.api.response, call.version)
    as_object = Exchange(
        exchange.session,
        call._replace(encode=encode),
        exchange.correlation_id,
        exchange.request_size,
        exchange.received_at,
    )
    return as_object.encode(response)


# Replies that are held back or lost


def _delay(broker: Broker, exchange: Exchange, reply: Reply, seconds: float) -> PendingReply:
    held: asyncio.Future[list[Part]] = asyncio.get_running_loop().create_future()
    completion, encode = _completion_of(exchange, reply)

    def hold(_: object = None) -> None:
        if completion is not None and completion.cancelled():
            held.cancel()
            return
        try:
            parts = encode()
        except Exception as error:
            held.set_exception(error)
            return
        broker.clock.call_later(seconds, lambda: None if held.done() else held.set_result(parts))

    if completion is None:
        hold()
    else:
        completion.add_done_callback(hold)
    return PendingReply(held, lambda future: future.result())


def _hang_up_after(exchange: Exchange, reply: Reply) -> PendingReply:
    completion, _ = _completion_of(exchange, reply)
    error = CloseConnectionError(f"a test drops the connection after {exchange} was processed")
    if completion is None:
        raise error

    def hang_up(_: object) -> list[Part]:
        raise error

    return PendingReply(completion, hang_up)


def _completion_of(exchange: Exchange, reply: Reply) -> tuple[Completion | None, Callable[[], list[Part]]]:
    """What a reply waits for, if it waits, and the function that then encodes it."""
    if isinstance(reply, PendingReply):
        completion, encode, _ = reply
        return completion, lambda: encode(completion)
    if isinstance(reply, Awaitable):
        task = asyncio.ensure_future(reply)
        return task, lambda: _encoded(exchange, task.result())
    return None, lambda: _encoded(exchange, reply)


def _encoded(exchange: Exchange, reply: Response | list[Part] | None) -> list[Part]:
    if reply is None:
        return []
    return exchange.encode(reply) if isinstance(reply, Response) else reply
