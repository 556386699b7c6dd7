"""The compiler of encoders that take nested tuples, for the two APIs that are called most.

`tuple_decoding` says what the tuples look like."""

from contextlib import ExitStack

from ottla.wire.encoding import Encoder, EncoderSource
from ottla.wire.schema import Array, Blob, Field, Fixed, Message, Struct, StructType, Text
from ottla.wire.splitting import element_of, split_at

_ONE_ELEMENT = b"\x02"
"""How a flexible version writes the length of an array with one element."""


def compile_tuple_encoder(cls: type[Message], version: int) -> Encoder:
    source = _TupleEncoderSource(version, cls.is_flexible(version))
    return source.compile_message(cls, f"encoder of {cls.__name__} v{version}")


class _TupleEncoderSource(EncoderSource):
    def compile_message(self, cls: type[Message], title: str) -> Encoder:
        levels = self._levels(cls)
        if levels is not None:
            self._one_element(levels)
        return super().compile_message(cls, title)

    def _levels(self, cls: type[Message]) -> list[tuple[type[Struct], Field | None]] | None:
        """The message, its topics and their partitions, each with the array that leads to the next. None if the message
        has other levels, or fields that `_one_element` cannot write."""
        levels: list[tuple[type[Struct], Field | None]] = []
        level: type[Struct] = cls
        for _ in range(2):
            array = split_at(level, self._version)
            if array is None:
                return None
            levels.append((level, array))
            level = element_of(array)
        levels.append((level, None))
        fits = self._flexible and all(
            field is array or field.tag is not None or not isinstance(field.type, StructType)
            for level, array in levels
            for field in level.__fields__
        )
        return levels if fits else None

    def _one_element(self, levels: list[tuple[type[Struct], Field | None]]) -> None:
        """Fast path for one topic with one partition and nothing unusual: the whole message in one expression."""
        before: list[tuple[str, str]] = []
        after: list[tuple[str, str]] = []
        place = "message"
        with ExitStack() as blocks:
            for cls, array in levels:
                places = [self.name(field.name) for field in cls.__fields__]
                self.line(f"{', '.join(places)}, = {place}")
                conditions: list[str] = []
                pieces: list[tuple[str, str]] = []
                behind: list[tuple[str, str]] = []
                target = pieces
                for field, value in zip(cls.__fields__, places, strict=True):
                    if not field.in_version(self._version):
                        continue
                    if field is array:
                        conditions.append(f"len({value}) == 1")
                        pieces.append(("1s", repr(_ONE_ELEMENT)))
                        place, target = f"{value}[0]", behind
                    else:
                        target += self._piece(field, value, conditions)
                before += pieces
                after = [*behind, ("x", ""), *after]
                if conditions:
                    blocks.enter_context(self.block(f"if {' and '.join(conditions)}:"))
            self._return(before + after)

    def _piece(self, field: Field, value: str, conditions: list[str]) -> list[tuple[str, str]]:
        """What is written for a field under the conditions that are added: struct codes with values, or an expression
        for bytes without a code."""
        nullable = field.nullable(self._version)
        if field.tag is not None:
            conditions.append(f"not ({self._differs(value, field)})")
            return []
        match field.type:
            case Fixed(code):
                return [(code, value)]
            case Text() if nullable:
                conditions.append(f"{value} is None")
                return [("1s", repr(self._null(field.type)))]
            case Text():
                conditions.append(f"{value} is not None")
                return [("", f"texts[{value}]")]
            case Blob():
                conditions.append(f"{value} is not None")
                return [("", f"lengths[len({value})]"), ("", value)]
            case _:
                conditions.append(f"not {value}")
                empty = repr(self._no_elements)
                return [("1s", f"{self._null(field.type)!r} if {value} is None else {empty}" if nullable else empty)]

    def _return(self, pieces: list[tuple[str, str]]) -> None:
        """Return the pieces, joined. Records that are still in a file are a part of their own."""
        joined: list[str] = []
        blob = None
        run: list[tuple[str, str]] = []
        for code, value in [*pieces, ("", "")]:
            if code:
                run.append((code, value))
                continue
            if run:
                joined.append(self._packed(run))
                run = []
            if value.isidentifier():
                blob = len(joined)
            if value:
                joined.append(value)
        if blob is not None:
            with self.block(f"if not isinstance({joined[blob]}, raw):"):
                head, tail = " + ".join(joined[:blob]), " + ".join(joined[blob + 1 :])
                self.line(f"return [{head}, {joined[blob]}, {tail}]")
        self.line(f"return [{' + '.join(joined)}]")

    def _local(self, place: str) -> str:
        return place

    def struct(self, this: str, cls: type[Struct]) -> None:
        places = [self.name(field.name) for field in cls.__fields__]
        self.line(f"{', '.join(places)}, = {this}")
        pairs = zip(cls.__fields__, places, strict=True)
        present = [(field, place) for field, place in pairs if field.in_version(self._version)]
        at_default = self._conditions_for_one_pack(present)
        if not at_default:
            self._fields(present)
            return
        self.flush()
        with self.block(f"if {' and '.join(at_default)}:"):
            self._pack_at_once(present)
        with self.block("else:"):
            self._fields(present)

    def _conditions_for_one_pack(self, present: list[tuple[Field, str]]) -> list[str]:
        """Under which fields of variable size have their default values, so that the size of the struct is known, as in
        nearly every answer to a Produce. Empty if there are no such fields, or others."""
        conditions = []
        for field, place in present:
            if field.tag is not None:
                conditions.append(f"not ({self._differs(place, field)})")
            elif isinstance(field.type, Array) and field.default is list and not field.nullable(self._version):
                conditions.append(f"not {place}")
            elif not isinstance(field.type, (Fixed, type)) and field.default is None:
                conditions.append(f"{place} is None")
            elif not isinstance(field.type, Fixed):
                return []
        return conditions

    def _pack_at_once(self, present: list[tuple[Field, str]]) -> None:
        for field, place in present:
            if isinstance(field.type, Fixed) and field.tag is None:
                self.run.append((field.type.code, place))
            elif field.tag is None:
                empty = self._no_elements if field.default is list else self._null(field.type)
                self.run.append((f"{len(empty)}s", repr(empty)))
        if self._flexible:
            self.run.append(("x", ""))

    @property
    def _no_elements(self) -> bytes:
        return b"\x01" if self._flexible else b"\0\0\0\0"

    def _differs(self, place: str, field: Field) -> str:
        if isinstance(field.default, StructType):
            return f"{place} != {_default_tuple(field.default)!r}"
        return super()._differs(place, field)


def _default_tuple(cls: StructType) -> tuple[object, ...]:
    return tuple(
        _default_tuple(field.default) if isinstance(field.default, StructType) else field.make_default()
        for field in cls.__fields__
    )
