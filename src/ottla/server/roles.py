"""The one place that says in which order the parts of a broker follow the cluster image."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.coordinator.transactions import TransactionCoordinator
    from ottla.metadata.cluster_metadata import ApplyImage
    from ottla.replication.fetchers import ReplicaFetchers
    from ottla.replication.replicas import Replicas

logger = logging.getLogger("ottla.broker")


@dataclass
class Roles:
    """What a broker is in its cluster: replica, follower, coordinator, controller."""

    replicas: Replicas
    fetchers: ReplicaFetchers
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    controller: Controller
    registered: bool = False
    """Until this broker is registered, leaders and the controller would take it for dead. So it neither fetches, which
    could put it into the in-sync replicas, nor becomes the controller."""

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """A part that fails does not keep the image from those after it; it gets the next image."""
        for name, step in self._steps():
            try:
                step(image, config)
            except Exception:
                logger.exception("the %s cannot apply the cluster image of revision %d", name, image.revision)

    def _steps(self) -> Iterator[tuple[str, ApplyImage]]:
        yield "replicas", self.replicas.apply
        if self.registered:
            yield "fetchers", self.fetchers.apply  # They fetch for the replicas that follow.
        yield "group coordinator", self.groups.apply  # Loads from the replicas that lead.
        yield "transaction coordinator", self.transactions.apply  # Writes markers for groups.
        if self.registered:
            yield "controller", self.controller.apply
