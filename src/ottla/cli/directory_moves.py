"""Moves of replicas between the log directories of a broker, which stays one of their brokers."""

import time
from collections.abc import Mapping

from ottla.cli.cluster_admin import ClusterAdmin
from ottla.cli.command_error import CommandError
from ottla.cli.moving import POLL_SECONDS, MoveProgress, refusals
from ottla.model import TopicPartition

ANY = "any"
"""A replica in a file of Kafka's tools that may be in any directory."""

Wanted = Mapping[int, Mapping[TopicPartition, str]]
"""By broker: the directory of each partition."""


def move_between_directories(admin: ClusterAdmin, wanted: Wanted, *, quiet: bool) -> None:
    """Move replicas to these directories, and show progress until all are there."""
    refused: dict[TopicPartition, str] = {}
    for broker, paths in wanted.items():
        refused |= admin.move_to_directories(broker, paths)
    if refused:
        raise CommandError(refusals(refused).replace("The controller", "The broker"))
    total = sum(map(len, wanted.values()))
    size = _bytes(admin, wanted)
    view = MoveProgress(total, size, shown=not quiet)
    try:
        while True:
            left, copied = _left(admin, wanted)
            if not left:
                return
            view.show(total - left, copied)
            time.sleep(POLL_SECONDS)
    finally:
        view.clear()


def _bytes(admin: ClusterAdmin, wanted: Wanted) -> int:
    return sum(
        size
        for broker, paths in wanted.items()
        for directory in admin.directories(broker)
        for key, size in directory.sizes.items()
        if key in paths
    )


def _left(admin: ClusterAdmin, wanted: Wanted) -> tuple[int, int]:
    """The number of replicas that are not in their directory yet, and the bytes that are."""
    left = copied = 0
    for broker, paths in wanted.items():
        directories = {directory.path: directory for directory in admin.directories(broker)}
        for key, path in paths.items():
            target = directories.get(path)
            if target is None or key not in target.sizes:
                left += 1
                copied += 0 if target is None else target.moving_in.get(key, 0)
            else:
                copied += target.sizes[key]
    return left, copied
