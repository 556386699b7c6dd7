"""Maps a group or a transactional id to a partition of an internal topic, whose leader is the coordinator."""


def partition_for(key: str, partition_count: int) -> int:
    """As in Kafka: the absolute value of Java's string hash, modulo the number of partitions."""
    code = java_hash(key)
    return (0 if code == -(1 << 31) else abs(code)) % partition_count


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16 code units: a character outside the basic plane is two units."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code
