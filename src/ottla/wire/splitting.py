"""Where messages with topics and partitions are split: at their first array of structs."""

from ottla.wire.schema import Array, Field, Struct, StructType


def split_at(cls: type[Struct], version: int) -> Field | None:
    """The first array of structs; None if there is none, or if another array comes before it."""
    for field in cls.__fields__:
        if isinstance(field.type, Array) and field.tag is None and field.in_version(version):
            of_structs = isinstance(field.type.element, StructType) and not field.nullable(version)
            return field if of_structs else None
    return None


def element_of(array: Field) -> type[Struct]:
    assert isinstance(array.type, Array)
    assert isinstance(array.type.element, type)
    return array.type.element
