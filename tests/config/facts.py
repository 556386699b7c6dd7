"""What Apache Kafka 4.3.1 itself says about its keys, and what it answered to DescribeConfigs."""

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent

KEYS: dict[str, dict[str, dict[str, Any]]] = json.loads((_HERE / "kafka-4.3.1-keys.json").read_text())
"""By resource and name: the facts of Kafka's own table."""

OTTLA_ONLY_TOPIC = frozenset({"flush.before.visible"})
"""Topic keys that Apache Kafka does not have."""

FIXED_AT_START = frozenset({"listeners", "listener.security.protocol.map"})
"""Kafka opens and closes listeners while it runs; Ottla refuses the change instead of storing it without effect."""

DESCRIBED: dict[str, dict[str, Any]] = json.loads((_HERE / "kafka-4.3.1-describe.json").read_text())
"""`given` is how a broker was set up; the other members are its entries, without those that are plain defaults for
the broker and for the second topic."""
