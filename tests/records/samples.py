"""Record batches of other implementations, and strategies that create our own."""

import struct

from hypothesis import strategies as st

from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.format import Codec

LIBRDKAFKA = {
    Codec.NONE: (
        "0000000000000000000000ab000000000276dd94630000000000030000018bcfe568000000018bcfe56803ffffffffffffffffff"
        "ffffffffff000000044000000001344f74746c612c204f74746c612c204f74746c612c204f74746c610058000202046b31344f74"
        "746c612c204f74746c612c204f74746c612c204f74746c610402680231086e756c6c0110000404046b32010044000606046b3334"
        "4f74746c612c204f74746c612c204f74746c612c204f74746c6100"
    ),
    Codec.GZIP: (
        "00000000000000000000007b0000000002ad976b5c0001000000030000018bcfe568000000018bcfe56803ffffffffffffffffff"
        "ffffffffff000000041f8b0800000000000003736060606034f12f29c949d451c0423144303031b1641be251c2c294c164c89157"
        "9a93c328c0c0c2c2926dc4c8e0c2c0c6c6926d8ccf60005df277997a000000"
    ),
    Codec.SNAPPY: (
        "00000000000000000000007000000000023e2249890002000000030000018bcfe568000000018bcfe56803ffffffffffffffffff"
        "ffffffffff000000047a304000000001344f74746c612c204a07001c0058000202046b316a2300680402680231086e756c6c0110"
        "000404046b32010044000606046b336a36000000"
    ),
    Codec.LZ4: (
        "000000000000000000000083000000000275055f260003000000030000018bcfe568000000018bcfe56803ffffffffffffffffff"
        "ffffffffff0000000404224d1860408243000000df4000000001344f74746c612c200700008f0058000202046b31230008ff0c04"
        "02680231086e756c6c0110000404046b32010044000606046b333600045074746c610000000000"
    ),
    Codec.ZSTD: (
        "0000000000000000000000780000000002c16506870004000000030000018bcfe568000000018bcfe56803ffffffffffffffffff"
        "ffffffffff0000000428b52ffd0058f5010014034000000001344f74746c612c200058000202046b310402680231086e756c6c01"
        "10000404046b32010044000606046b3300030067150ea3c25849f902"
    ),
}
"""Four records as librdkafka 2.16.0 sent them and Apache Kafka 4.3.1 stored them. Its snappy has no framing."""

JAVA = {
    Codec.NONE: (
        "00000000000000000000005800000000024b61053b000000000000000001a1e14fbf16000001a1e14fbf16000000000000000a00"
        "0000000000000000014c000000046b30344f74746c612c204f74746c612c204f74746c612c204f74746c610202680231"
    ),
    Codec.GZIP: (
        "00000000000000000000005b000000000292df53a4000100000000000001a1e14fc63a000001a1e14fc63a000000000000000b00"
        "0000000000000000011f8b08000000000000fff361606060c93630f12f29c949d451c042313165301902000cabea3c27000000"
    ),
    Codec.SNAPPY: (
        "00000000000000000000005f0000000002d0e9fd51000200000000000001a1e14fcc0c000001a1e14fcc0c000000000000000c00"
        "00000000000000000182534e415050590000000001000000010000001a27384c000000046b30344f74746c612c204a0700100202"
        "680231"
    ),
    Codec.LZ4: (
        "00000000000000000000005a000000000237472e90000300000000000001a1e14fcff6000001a1e14fcff6000000000000000d00"
        "00000000000000000104224d186040821a000000ff004c000000046b30344f74746c612c20070000500202680231"
        "00000000"
    ),
    Codec.ZSTD: (
        "0000000000000000000000570000000002ba98b755000400000000000001a1e14fd3eb000001a1e14fd3eb000000000000000e00"
        "00000000000000000128b52ffd0058d40000a04c000000046b30344f74746c612c20020268023101004a4a1d010000"
    ),
}
"""One record as the idempotent producer of Apache Kafka 4.3.1 sent it. Its snappy has xerial's framing."""

TEXT = b"Ottla, Ottla, Ottla, Ottla"

payloads = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=10), payloads), max_size=4).map(tuple)
timestamps = st.integers(-1, 2**45)
new_records = st.builds(NewRecord, payloads, payloads, headers, timestamps)
record_lists = st.lists(new_records, min_size=1, max_size=20)
codecs = st.sampled_from(Codec)


def three_records(codec: Codec = Codec.NONE) -> bytearray:
    return build_batch(
        [
            NewRecord(b"k0", TEXT, (("h", b"1"), ("null", None)), 1000),
            NewRecord(None, TEXT, (), 1020),
            NewRecord(b"k2", None, (), 1010),
        ],
        codec=codec,
    )


def patched(batch: bytes | bytearray, position: int, layout: str, value: int) -> bytearray:
    """The batch with one field overwritten and a correct checksum."""
    copy = bytearray(batch)
    struct.pack_into(layout, copy, position, value)
    seal(copy)
    return copy


def with_payload(batch: bytes | bytearray, payload: bytes) -> bytearray:
    """The batch with other bytes after its header, and a correct length and checksum."""
    copy = bytearray(batch[:61]) + payload
    return patched(copy, 8, ">i", len(copy) - 12)
