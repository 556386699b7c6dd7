"""The partition of an internal topic, and so the broker, that coordinates a group or a transactional id."""


def partition_for(key: str, partition_count: int) -> int:
    """Kafka's placement: the absolute value of Java's string hash, modulo the partitions."""
    code = java_hash(key)
    return (0 if code == -(1 << 31) else abs(code)) % partition_count


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 code units, so a character outside the basic plane counts twice."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code
