"""Ottla: a commit log that speaks the wire protocol of Apache Kafka."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.cluster import EmbeddedCluster as EmbeddedCluster
    from ottla.testing.cluster import embedded_cluster as embedded_cluster
    from ottla.testing.embedded import EmbeddedBroker as EmbeddedBroker
    from ottla.testing.embedded import embedded as embedded

__version__ = "0.2.0"

_LAZY = {
    "EmbeddedBroker": "embedded",
    "EmbeddedCluster": "cluster",
    "embedded": "embedded",
    "embedded_cluster": "cluster",
}
"""The modules of `ottla.testing` with these names."""


def __getattr__(name: str) -> Any:
    """`ottla.embedded` without making every command import the broker."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"ottla.testing.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")
