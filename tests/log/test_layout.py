from ottla.log.layout import deleted_directory_name, parse_offset, parse_partition_directory, segment_path
from ottla.model import TopicPartition


def test_segments_are_named_after_their_base_offset() -> None:
    assert segment_path("/data/clicks-0", 42, ".log") == "/data/clicks-0/00000000000000000042.log"
    assert parse_offset("00000000000000000042.log", ".log") == 42


def test_other_files_have_no_offset() -> None:
    for name in ("00000000000000000042.index", "42.log", "leader-epoch-checkpoint", "0000000000000000004x.log", ".log"):
        assert parse_offset(name, ".log") is None


def test_partition_directories() -> None:
    assert parse_partition_directory("clicks-3") == TopicPartition("clicks", 3)
    assert parse_partition_directory("my-clicks-12") == TopicPartition("my-clicks", 12)
    others = ["clicks", "-3", "clicks-", "clicks-x", "clicks-03", "clicks-\u0663", "meta.properties"]
    for name in [*others, "clicks-3.a-delete", "__cluster_metadata-0"]:
        assert parse_partition_directory(name) is None


def test_a_deleted_partition_keeps_a_name_that_fits() -> None:
    unique = bytes(range(16))
    assert deleted_directory_name(TopicPartition("clicks", 3), unique) == (
        "clicks-3.000102030405060708090a0b0c0d0e0f-delete"
    )
    name = deleted_directory_name(TopicPartition("t" * 249, 1000), unique)
    assert len(name) == 255
    assert name.endswith("-1000.000102030405060708090a0b0c0d0e0f-delete")
