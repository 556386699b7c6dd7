"""Prints docs/protocol.md: the served APIs, from the registry."""

from ottla.handlers.registry import HANDLERS

_HEAD = """# The protocol

`make docs` generates this page from the registry of handlers. `ApiVersions` replies from the same table.

Ottla serves Kafka's wire protocol with the version ranges of Apache Kafka 4.3. An API that is not in this table is not
advertised. On such a request, the broker closes the connection and logs one line. As in Kafka, the broker advertises
Produce 0 to 2 for old versions of librdkafka (KAFKA-18659), but rejects such requests. It answers every
ConsumerGroupHeartbeat with UNSUPPORTED_VERSION: KIP-848 groups are not served.

| key | API | versions | flexible from | handler |
|---:|---|---|---|---|"""


def document() -> str:
    lines = [_HEAD]
    for key, served in sorted(HANDLERS.items()):
        api = served.api
        flexible = "never" if api.flexible_since is None else str(api.flexible_since)
        handler = f"`{served.handle.__module__.removeprefix('ottla.')}`"
        lines.append(f"| {key} | {api.name} | {served.advertised_from}-{api.max_version} | {flexible} | {handler} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(document())
