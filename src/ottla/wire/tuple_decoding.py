"""The compiler of decoders into nested tuples, for the two APIs that are called most.

Every struct becomes a tuple of its fields in the order of their declaration, which costs a third of an object.
"""

from collections.abc import Callable
from typing import Any

from ottla.wire.decoding import Decoder, DecoderSource
from ottla.wire.schema import Array, Field, Message, Struct, StructType

_MAX_MEMO = 1 << 10
"""Bytes of a message that are remembered."""


def compile_tuple_decoder(cls: type[Message], version: int) -> Decoder:
    source = _TupleDecoderSource(cls, version)
    return source.compile_message(cls, f"tuple decoder of {cls.__name__} v{version}")


class _TupleDecoderSource(DecoderSource):
    """A client sends nearly the same message over and over: settings, one topic, one partition of it. The memo has the
    beginning of the last message, up to the first partition of the first topic, and what follows the only partition.
    Where the next message has the same bytes, their values are taken from the memo."""

    def compile_message(self, cls: type[Message], title: str) -> Callable[..., tuple[Any, int]]:
        outer = _Split.of(cls, self)
        inner = None if outer is None else _Split.of(outer.element, self)
        if outer is None or inner is None:
            return super().compile_message(cls, title)
        head = ", ".join([place for _, place in outer.head + inner.head] + [outer.count, inner.count, "budget"])
        tail = "".join(f"{place}, " for _, place in outer.rest + inner.rest)
        self.line("end = len(buffer)")
        self.line("known, values, known_end, end_values = memo")
        self.line("hit = known is not None and buffer[position : position + len(known)] == known")
        self._defaults(outer.fields)
        self._defaults(inner.fields)
        with self.block("if hit:"):
            self.line(f"{head} = values")
            self.line("position += len(known)")
            self._only_element(outer, inner, tail)
        with self.block("else:"):
            self.line("start = position")
            self.line(f"budget = {self._max_elements}")
            self._head(outer)
        self._loop(outer, inner, head)
        self._tail(outer)
        self.line("if position > end: raise truncated(position - end)")
        with self.block(f"if 1 == {outer.count} == {inner.count} and position - behind < {_MAX_MEMO}:"):
            self.line(f"memo[2:] = bytes(buffer[behind:position]), ({tail})")
        self.line(f"return {_tuple(outer.fields)}, position")
        return self.compile(title)

    def _only_element(self, outer: "_Split", inner: "_Split", tail: str) -> None:
        """One topic with one partition, and what follows is what followed last time."""
        with self.block(f"if 1 == {outer.count} == {inner.count}:"):
            self.line("first = position")
            self._value("item", inner.element, "element")
            self.flush()
            with self.block("if buffer[position:] == known_end and position <= end:"):
                self.line(f"({tail}) = end_values")
                self.line(f"{inner.place} = [item]")
                self.line(f"{outer.place} = [{_tuple(inner.fields)}]")
                self.line(f"return {_tuple(outer.fields)}, end")
            self.line("position = first")

    def _loop(self, outer: "_Split", inner: "_Split", head: str) -> None:
        """Read the elements of both arrays. On a hit, the head of the first outer one is known."""
        self.line(f"{outer.place} = items = []")
        with self.block(f"for _ in range({outer.count}):"):
            self._defaults(inner.fields)
            with self.block("if hit:"):
                self.line("hit = False")
            with self.block("else:"):
                self._head(inner)
                with self.block(f"if not items and position - start < {_MAX_MEMO}:"):
                    self.line(f"memo[:2] = bytes(buffer[start:position]), ({head})")
            self._elements(inner.place, inner.element, "element", inner.count)
            self.line("behind = position")
            self._tail(inner)
            self.line(f"items.append({_tuple(inner.fields)})")

    def _head(self, split: "_Split") -> None:
        """What stands before the elements of the array, their number included."""
        self._present(split.head)
        with self._sized("i", split.place, split.array.name, nullable=False, length=split.count) as count:
            self._check_count(count)

    def _tail(self, split: "_Split") -> None:
        self._present(split.tail)
        self._tags(split.fields)
        self.flush()

    def struct(self, target: str, cls: type[Struct]) -> None:
        fields = self.places(cls)
        self._fields(fields)
        self.flush()
        self.line(f"{target} = {_tuple(fields)}")

    def places(self, cls: type[Struct]) -> list[tuple[Field, str]]:
        """The fields, each with a new variable for its value."""
        return [(field, self.name(field.name)) for field in cls.__fields__]

    def is_array_of_structs(self, field: Field) -> bool:
        return (
            isinstance(field.type, Array)
            and isinstance(field.type.element, StructType)
            and field.tag is None
            and field.in_version(self._version)
            and not field.nullable(self._version)
        )

    def _default(self, field: Field) -> str:
        if isinstance(field.default, StructType):
            return f"({', '.join(self._default(inner) for inner in field.default.__fields__)},)"
        return super()._default(field)


class _Split:
    """A struct, split at its first array of structs."""

    def __init__(self, fields: list[tuple[Field, str]], position: int, count: str) -> None:
        self.fields = fields
        """Each with the variable for its value."""
        self.array, self.place = fields[position]
        self.count = count
        """The variable for the number of elements."""
        self.head = fields[:position]
        self.tail = fields[position + 1 :]
        self.rest = self.tail + [pair for pair in self.head if pair[0].tag is not None]
        """All that is read behind the array."""

    @classmethod
    def of(cls, struct: type[Struct], source: _TupleDecoderSource) -> "_Split | None":
        """None if the struct has no such array, or has other arrays before it, which messages could not share."""
        fields = source.places(struct)
        for position, (field, _) in enumerate(fields):
            if source.is_array_of_structs(field):
                return cls(fields, position, source.name("count"))
            if isinstance(field.type, Array):
                return None
        return None

    @property
    def element(self) -> type[Struct]:
        assert isinstance(self.array.type, Array)
        assert isinstance(self.array.type.element, type)
        return self.array.type.element


def _tuple(fields: list[tuple[Field, str]]) -> str:
    return f"({', '.join(place for _, place in fields)},)"
