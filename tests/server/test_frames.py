"""The frame reader: any split of a stream into chunks gives the same frames, and announced sizes take no memory."""

import resource
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.server.buffers import Buffers
from ottla.server.frames import FrameError, FrameReader

LIMIT = 1 << 20

payloads = st.lists(st.binary(max_size=300) | st.integers(0, 5000).map(bytes), max_size=12)
cuts = st.lists(st.integers(1, 4000), min_size=1, max_size=30)


def stream_of(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def put(reader: FrameReader, data: bytes) -> int:
    """One receive: as many bytes as fit into the reader's buffer."""
    room = reader.buffer()
    count = min(len(room), len(data))
    room[:count] = data[:count]
    reader.filled += count
    return count


def take_all(reader: FrameReader) -> list[bytes]:
    frames = []
    while (frame := reader.next_frame()) is not None:
        frames.append(bytes(frame))
    reader.settle()
    return frames


def take(reader: FrameReader) -> bytes:
    frame = reader.next_frame()
    assert frame is not None
    return bytes(frame)


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    frames = []
    while data:
        data = data[put(reader, data) :]
        frames += take_all(reader)
    return frames


def new_reader(scratch_size: int = 4096, limit: int = LIMIT) -> FrameReader:
    return FrameReader(new_buffers(scratch_size), limit)


def new_buffers(scratch_size: int = 4096) -> Buffers:
    buffers = Buffers()
    buffers.scratch = memoryview(bytearray(scratch_size))
    return buffers


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@settings(derandomize=True, deadline=None, max_examples=200)
@given(payloads, cuts, st.sampled_from([5, 64, 4096]))
def test_any_split_gives_the_same_frames(frames: list[bytes], sizes: list[int], scratch_size: int) -> None:
    reader, stream, found, turn = new_reader(scratch_size), stream_of(frames), [], 0
    while stream:
        size = sizes[turn % len(sizes)]
        found += feed(reader, stream[:size])
        stream, turn = stream[size:], turn + 1
    assert found == frames
    assert reader.buffered == 0


@settings(derandomize=True, deadline=None, max_examples=100)
@given(payloads, st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_frames_may_be_taken_later_than_they_arrive(frames: list[bytes], appetite: list[int]) -> None:
    """A connection that waits for an earlier reply keeps its frames while others use the scratch buffer."""
    buffers = new_buffers()
    scratch = buffers.scratch
    reader, stream, found, turn = FrameReader(buffers, LIMIT), stream_of(frames), [], 0
    while stream or reader.buffered:
        if stream:
            stream = stream[put(reader, stream[:100]) :]
        for _ in range(appetite[turn % len(appetite)] if stream else len(frames)):
            frame = reader.next_frame()
            if frame is not None:
                found.append(bytes(frame))
        reader.settle()
        scratch[:] = b"\xee" * len(scratch)
        turn += 1
    assert found == frames


def test_one_byte_at_a_time() -> None:
    frames, reader = [b"", b"a", bytes(range(256)) * 3], new_reader()
    found = [frame for byte in stream_of(frames) for frame in feed(reader, bytes([byte]))]
    assert found == frames


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_sizes_out_of_bounds(size: int) -> None:
    reader = new_reader()
    put(reader, struct.pack(">i", size))
    with pytest.raises(FrameError, match=rf"a frame of {size} bytes; the limit is {LIMIT}"):
        reader.next_frame()


def test_a_client_of_another_protocol_is_named() -> None:
    for first, name in ((b"GET / HTTP/1.1", "an HTTP request"), (b"\x16\x03\x01\x02\x00\x01", "a TLS handshake")):
        reader = new_reader()
        put(reader, first)
        with pytest.raises(FrameError, match=name):
            reader.next_frame()


def test_the_largest_frame_is_accepted() -> None:
    frame = bytes(LIMIT)
    assert feed(new_reader(), stream_of([frame])) == [frame]


def test_a_frame_before_a_bad_size_is_still_given_out() -> None:
    reader = new_reader()
    put(reader, stream_of([b"good"]) + struct.pack(">i", -1))
    assert take(reader) == b"good"
    with pytest.raises(FrameError):
        reader.next_frame()


def test_a_claim_costs_no_memory() -> None:
    """A hundred connections announce a hundred megabytes each and send little. The broker stores only what they
    send."""
    claim = struct.pack(">i", 100 << 20) + bytes(1000)
    buffers = new_buffers()
    before = resident_bytes()
    readers = [FrameReader(buffers, 200 << 20) for _ in range(100)]
    for reader in readers:
        feed(reader, claim)
    assert all(reader.buffered == len(claim) for reader in readers)
    assert resident_bytes() - before < 100 * 20_000


def test_memory_follows_what_arrived() -> None:
    reader = new_reader(limit=200 << 20)
    feed(reader, struct.pack(">i", 100 << 20))
    for arrived in (2_000_000, 4_000_000, 16_000_000):
        feed(reader, bytes(arrived - reader.buffered))
        assert len(reader.buffer()) <= 2 * arrived


def test_no_memory_is_kept_between_frames() -> None:
    buffers = new_buffers()
    reader = FrameReader(buffers, LIMIT)
    feed(reader, stream_of([bytes(100_000)]))
    assert reader.buffer() is buffers.scratch


def test_a_block_is_lent_to_one_connection_at_a_time_and_kept_for_the_next() -> None:
    buffers = new_buffers()
    first, second = FrameReader(buffers, LIMIT), FrameReader(buffers, LIMIT)
    half = stream_of([b"a" * 200_000])[:100_000]
    feed(first, half)
    feed(second, half)
    borrowed = [first.buffer().obj, second.buffer().obj]
    assert borrowed[0] is not borrowed[1]
    assert feed(first, b"a" * 100_004) == [b"a" * 200_000]
    feed(first, half)
    assert first.buffer().obj is borrowed[0]
    assert feed(second, b"a" * 100_004) == [b"a" * 200_000]


def test_waiting_frames_are_not_copied_again_and_again() -> None:
    """A thousand frames that are served one by one must not cause a thousand copies of the remaining bytes."""
    reader = new_reader(1 << 16)
    put(reader, stream_of([bytes(40)] * 1000))
    first = reader.next_frame()
    assert first is not None
    reader.settle()
    kept = reader.next_frame()
    assert kept is not None
    for _ in range(998):
        reader.settle()
        frame = reader.next_frame()
        assert frame is not None
        assert frame.obj is kept.obj


def test_room_is_made_for_a_frame_that_follows_others() -> None:
    reader = new_reader(256)
    frames = [bytes(200), b"x" * 3000]
    put(reader, stream_of(frames)[:256])
    reader.settle()
    assert take(reader) == frames[0]
    reader.settle()
    assert feed(reader, stream_of(frames)[256:]) == [frames[1]]
