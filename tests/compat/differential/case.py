"""What a case is, and one broker's side of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ottla.model import TopicId
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.schema import Request
from tests.compat.differential.normal_form import NormalForm
from tests.server.wire_client import WireClient, response_of

HUNG_UP = "the broker closes the connection"
NO_ANSWER = "the broker does not answer"
METADATA_VERSION = 12
PATIENCE = 60.0


class Talk:
    """One broker's side of a case: the replies so far, and what later requests need from them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.replies: list[Any] = []
        """As decoded; None where the broker closed the connection."""

    def topic_id(self, name: str) -> TopicId:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        with WireClient(self.bootstrap) as client:
            reply = client.call(request, METADATA_VERSION, MetadataResponse)
        return reply.topics[0].topic_id

    @property
    def last(self) -> Any:
        return self.replies[-1]


Build: TypeAlias = Callable[[Talk], Request]


@dataclass(frozen=True, slots=True)
class Step:
    version: int
    request: Request | Build
    """The request, or how to make it from the replies so far."""

    def build(self, talk: Talk) -> Request:
        return self.request if isinstance(self.request, Request) else self.request(talk)


@dataclass(frozen=True, slots=True)
class Case:
    """Requests that one client sends, one after the other; each of the answers is compared."""

    name: str
    steps: tuple[Step, ...]
    texts: bool = False
    """Compare error messages too, word by word."""
    unordered: frozenset[str] = frozenset()
    """Lists whose order in Apache Kafka is that of a hash table."""
    ignored: frozenset[str] = frozenset()
    """Fields that may differ, because the brokers are set up differently."""


def run(case: Case, bootstrap: str) -> list[Any]:
    """The normal form of a broker's answers, one for each step."""
    talk, form = Talk(bootstrap), NormalForm(case.texts, case.unordered, case.ignored)
    answers: list[Any] = []
    client = WireClient(bootstrap, PATIENCE)
    try:
        for step in case.steps:
            request = step.build(talk)
            try:
                talk.replies.append(client.call(request, step.version, response_of(request)))
                answers.append(form.of(talk.last))
            except (EOFError, ConnectionError, TimeoutError) as error:
                client.close()
                client = WireClient(bootstrap, PATIENCE)
                talk.replies.append(None)
                answers.append(NO_ANSWER if isinstance(error, TimeoutError) else HUNG_UP)
    finally:
        client.close()
    return answers


def case(
    name: str,
    *steps: tuple[int, Request | Build],
    texts: bool = False,
    unordered: Iterable[str] = (),
    ignored: Iterable[str] = (),
) -> Case:
    """A case whose steps are pairs of a version and a request."""
    made = tuple(Step(version, request) for version, request in steps)
    return Case(name, made, texts, frozenset(unordered), frozenset(ignored))


def versions(name: str, numbers: Iterable[int], request: Request | Build, **options: Any) -> list[Case]:
    """The same request in several versions."""
    return [case(f"{name} v{number}", (number, request), **options) for number in numbers]
