import pytest

from ottla.coordinator_core.placement import java_hash, partition_for


@pytest.mark.parametrize(
    ("group_id", "code", "partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("shop", 3529462, 12),
        ("console-consumer-12345", 158455506, 6),
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -(2**31), 0),
        ("größe", 98762257, 7),
        ("群組", 1045024, 24),
        ("🚀-group", 732881429, 29),
    ],
)
def test_a_group_lives_where_kafka_puts_it(group_id: str, code: int, partition: int) -> None:
    """The numbers are Java's."""
    assert java_hash(group_id) == code
    assert partition_for(group_id, 50) == partition
