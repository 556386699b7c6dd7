from pathlib import Path

from tests.nemesis.replicas import differences


def write(directory: Path, partition: str, *segments: bytes) -> None:
    (directory / partition).mkdir(parents=True)
    for number, content in enumerate(segments):
        (directory / partition / f"{number:020d}.log").write_bytes(content)


def test_replicas_are_compared_byte_by_byte_across_segments(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    write(one, "t-0", b"abc", b"def")
    write(two, "t-0", b"abcd", b"ef")
    write(one, "t-1", b"abcdef")
    write(two, "t-1", b"abcdEf")
    write(one, "t-2", b"abc")
    write(two, "t-2", b"ab")
    write(one, "internal-0", b"abc")
    write(two, "internal-0", b"ab")
    write(one, "alone-0", b"abc")
    assert differences([one, two], whole="t") == [
        "the replicas of t-1 differ at byte 4",
        "the replicas of t-2 have [2, 3] bytes",
    ]
