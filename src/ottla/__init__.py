"""Ottla: a commit log that speaks the wire protocol of Apache Kafka."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.embedded import EmbeddedBroker as EmbeddedBroker
    from ottla.testing.embedded import embedded as embedded

__version__ = "0.2.0"

_LAZY = ("EmbeddedBroker", "embedded")


def __getattr__(name: str) -> Any:
    """`ottla.embedded` without making every command import the broker."""
    if name in _LAZY:
        from ottla.testing import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")
