"""Static config: parse server.properties and environment variables."""

from collections.abc import Iterator, Mapping

from ottla.config.definition import ConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"

_ENVIRONMENT_PREFIX = "KAFKA_"
_BITNAMI_PREFIX = "KAFKA_CFG_"
_NOT_CONFIG = frozenset(
    {
        "KAFKA_CLUSTER_ID",
        "KAFKA_DEBUG",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)
"""Variables for Kafka's JVM or release, which are not config keys."""


def static_config(properties: str = "", environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The static values of a broker. The environment overrides the file.

    As in Kafka's container image, if the environment sets only advertised.listeners, the broker listens on the same
    ports, on all interfaces.
    """
    variables = from_environment(environment or {})
    config = parse_properties(properties) | variables
    if "listeners" not in config and "advertised.listeners" in variables:
        config["listeners"] = ",".join(map(_on_all_interfaces, variables["advertised.listeners"].split(",")))
    return config


def _on_all_interfaces(listener: str) -> str:
    name, _, address = listener.strip().partition("://")
    return f"{name}://0.0.0.0:{address.rpartition(':')[2]}"


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """KAFKA_LOG_RETENTION_HOURS is log.retention.hours. Two underscores are one underscore, three are a hyphen.

    KAFKA_CFG_ is the prefix of another widespread container image.
    """
    found = {}
    for variable in sorted(environment):
        if variable.startswith(_BITNAMI_PREFIX):
            found[_key_of_variable(variable[len(_BITNAMI_PREFIX) :])] = environment[variable]
        elif variable.startswith(_ENVIRONMENT_PREFIX) and variable not in _NOT_CONFIG:
            found[_key_of_variable(variable[len(_ENVIRONMENT_PREFIX) :])] = environment[variable]
    return found


def _key_of_variable(name: str) -> str:
    return "-".join(
        "_".join(part.replace("_", ".") for part in piece.split("__")) for piece in name.lower().split("___")
    )


def parse_properties(text: str) -> dict[str, str]:
    """Parse Java's .properties syntax. If a key occurs twice, the last value is used."""
    return dict(_split(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank lines. A line with an odd number of backslashes at its end continues."""
    pending = ""
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """The key ends at the first unescaped =, : or blank. The separator is blanks with at most one = or : among them."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_BLANKS)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    result = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            result.append(character)
        elif text[position : position + 1] == "u":
            result.append(_unicode(text[position + 1 : position + 5]))
            position += 5
        else:
            escaped = text[position : position + 1]
            result.append(_ESCAPES.get(escaped, escaped))
            position += 1
    return "".join(result)


def _unicode(digits: str) -> str:
    try:
        if len(digits) == 4:
            return chr(int(digits, 16))
    except ValueError:
        pass
    raise ConfigError("server.properties", f"\\u{digits}", "four hexadecimal digits must follow \\u")
