"""Situations in which a producer may find itself, and what it is told: told once by Apache Kafka, kept in a file.

A paragraph is a situation with a transactional id of its own. A line that begins with `>` is a request, what stands
below it is the answer. Producer ids are called p1, p2, ... in the order in which they appear; p9 never does.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.model import Producer, TopicPartition

NEVER_GIVEN = 2**40


class Answer(NamedTuple):
    errors: tuple[str, ...]
    producer: Producer | None = None
    text: str = ""


class Speaker(Protocol):
    """Somebody who can be asked: the core, or a broker."""

    def begin(self) -> None:
        """Have another transactional id from now on."""

    def init(self, timeout_ms: int, expected: Producer | None, version: int) -> Answer: ...

    def add(self, producer: Producer, partitions: Sequence[TopicPartition], version: int) -> Answer: ...

    def verify(self, producer: Producer, partitions: Sequence[TopicPartition], version: int) -> Answer: ...

    def offsets(self, producer: Producer, version: int) -> Answer: ...

    def end(self, producer: Producer, committed: bool, version: int) -> Answer: ...

    def describe(self) -> Answer: ...

    def states(self, wanted: Sequence[str], pattern: str | None) -> Answer: ...

    def settle(self) -> None:
        """Come back when the markers are written."""

    def time_out(self) -> None:
        """Come back when a transaction that may be open for a second is aborted."""


def run(script: str, speaker: Speaker) -> str:
    """The script with the answers that the speaker gives."""
    lines: list[str] = []
    situation = Situation(speaker)
    for line in script.splitlines():
        if line.startswith(">"):
            answer = situation.play(line[1:].split())
            lines += [line, *([f"  {answer}"] if answer else [])]
        elif not line.startswith("  "):
            lines.append(line)
            if line:
                situation = Situation(speaker)
    return "\n".join(lines) + "\n"


class Situation:
    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._producer_ids: list[int] = []
        speaker.begin()

    def play(self, words: list[str]) -> str:
        names = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        match words[0]:
            case "settle":
                self._speaker.settle()
                return ""
            case "time-out":
                self._speaker.time_out()
                return ""
            case "raise-epoch":
                return self._raise_epoch(int(options["to"]))
            case verb:
                return self._show(self._ask(verb, names, options))

    def _ask(self, verb: str, names: list[str], options: dict[str, str]) -> Answer:
        version = int(options.get("v", "5"))
        match verb:
            case "init":
                expected = self._producer(options["as"]) if "as" in options else None
                return self._speaker.init(int(options.get("timeout", "60000")), expected, version)
            case "add":
                return self._speaker.add(self._producer(names[0]), parse_partitions(names[1:]), version)
            case "verify":
                return self._speaker.verify(self._producer(names[0]), parse_partitions(names[1:]), version)
            case "offsets":
                return self._speaker.offsets(self._producer(names[0]), version)
            case "commit" | "abort":
                return self._speaker.end(self._producer(names[0]), verb == "commit", version)
            case "describe":
                return self._speaker.describe()
            case "list":
                wanted = [state for state in options.get("states", "").split(",") if state]
                return self._speaker.states(wanted, options.get("pattern"))
        raise ValueError(verb)

    def _raise_epoch(self, target: int) -> str:
        answer = self._speaker.init(60_000, None, 5)
        while answer.producer is not None and answer.producer.producer_epoch < target:
            answer = self._speaker.init(60_000, None, 5)
        return self._show(answer)

    def _producer(self, text: str) -> Producer:
        name, epoch = text.split(":")
        number = int(name[1:])
        known = number <= len(self._producer_ids)
        return Producer(self._producer_ids[number - 1] if known else NEVER_GIVEN + number, int(epoch))

    def _show(self, answer: Answer) -> str:
        words = list(answer.errors)
        if answer.producer is not None:
            producer_id, epoch = answer.producer
            if producer_id not in self._producer_ids:
                self._producer_ids.append(producer_id)
            words.append(f"p{self._producer_ids.index(producer_id) + 1}:{epoch}")
        return " ".join([*words, answer.text]).strip()


def parse_partitions(names: Sequence[str]) -> list[TopicPartition]:
    return [TopicPartition(topic, int(partition)) for topic, partition in (name.rsplit("-", 1) for name in names)]
