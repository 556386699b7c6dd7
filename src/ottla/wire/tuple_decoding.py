"""The compiler of decoders into nested tuples, for the two APIs that are called most.

Every struct becomes a tuple of its fields in the order of their declaration, which costs a third of an object.
"""

from collections.abc import Callable
from typing import Any

from ottla.wire.decoding import Decoder, DecoderSource
from ottla.wire.schema import Field, Message, Struct, StructType
from ottla.wire.splitting import element_of, split_at

_MAX_MEMO = 1 << 10
"""Bytes of a message that are remembered."""


def compile_tuple_decoder(cls: type[Message], version: int) -> Decoder:
    source = _TupleDecoderSource(cls, version)
    return source.compile_message(cls, f"tuple decoder of {cls.__name__} v{version}")


class _TupleDecoderSource(DecoderSource):
    """A client sends nearly the same message over and over: settings, one topic, one partition of it. The memo has what
    stands before and behind the partition in the last such message. Where the next message has the same bytes, their
    values are taken from the memo."""

    def compile_message(self, cls: type[Message], title: str) -> Callable[..., tuple[Any, int]]:
        outer = _Split.of(cls, self)
        inner = None if outer is None else _Split.of(element_of(outer.array), self)
        if outer is None or inner is None:
            return super().compile_message(cls, title)
        head = "".join(f"{place}, " for _, place in outer.head + inner.head)
        tail = "".join(f"{place}, " for _, place in outer.rest + inner.rest)
        self.line("end = len(buffer)")
        self.line("start = position")
        self.line(f"budget = {self._max_elements}")
        self._one_element(outer, inner, head, tail)
        self._defaults(outer.fields)
        self._head(outer)
        self._loop(outer, inner)
        self._tail(outer)
        self.line("if position > end: raise truncated(position - end)")
        with self.block(f"if 1 == {outer.count} == {inner.count} and first - start + position - behind < {_MAX_MEMO}:"):
            values = f"({head}), bytes(buffer[behind:position]), ({tail})"
            self.line(f"memo[:] = bytes(buffer[start:first]), first - start, {values}")
        self.line(f"return {_tuple(outer.fields)}, position")
        return self.compile(title)

    def _one_element(self, outer: "_Split", inner: "_Split", head: str, tail: str) -> None:
        """Fast path for one topic with one partition, between the same bytes as last time."""
        self.line("known, size, head, known_end, tail = memo")
        with self.block("if buffer[position : position + size] == known:"):
            self.line("position += size")
            self._value("item", element_of(inner.array), "element")
            self.flush()
            with self.block("if buffer[position:] == known_end and position <= end:"):
                self.line(f"{head}= head")
                if tail:
                    self.line(f"{tail}= tail")
                self.line(f"{inner.place} = [item]")
                self.line(f"{outer.place} = [{_tuple(inner.fields)}]")
                self.line(f"return {_tuple(outer.fields)}, end")
            self.line(f"position, budget = start, {self._max_elements}")

    def _loop(self, outer: "_Split", inner: "_Split") -> None:
        """Read the elements of both arrays, and note where the last outer element has its inner ones."""
        self.line(f"{outer.place} = items = []")
        with self.block(f"for _ in range({outer.count}):"):
            self._defaults(inner.fields)
            self._head(inner)
            self.line("first = position")
            self._elements(inner.place, element_of(inner.array), "element", inner.count)
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

    @property
    def version(self) -> int:
        return self._version

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
        array = split_at(struct, source.version)
        if array is None:
            return None
        fields = source.places(struct)
        return cls(fields, [field for field, _ in fields].index(array), source.name("count"))


def _tuple(fields: list[tuple[Field, str]]) -> str:
    return f"({', '.join(place for _, place in fields)},)"
