"""Defines the order in which the parts of a broker apply a cluster image."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.controller.rebalancing import AutomaticRebalance
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.coordinator.transactions import TransactionCoordinator
    from ottla.metadata.cluster_metadata import ApplyImage
    from ottla.replication.fetchers import ReplicaFetchers
    from ottla.replication.replicas import Replicas

logger = logging.getLogger("ottla.broker")


@dataclass
class Roles:
    """The parts of a broker that apply the cluster image."""

    replicas: Replicas
    fetchers: ReplicaFetchers
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    controller: Controller
    rebalance: AutomaticRebalance
    registered: bool = False
    """Until this broker is registered, the other brokers consider it dead. So it does not fetch before, because that
    could add it to the in-sync replicas, and does not become the controller."""

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Let all parts apply the image. If a part fails, the others still apply it, and the failed part gets the next
        image."""
        for name, step in self._steps():
            try:
                step(image, config)
            except Exception:
                logger.exception("the %s cannot apply revision %d of the cluster image", name, image.revision)

    def _steps(self) -> Iterator[tuple[str, ApplyImage]]:
        yield "replicas", self.replicas.apply
        if self.registered:
            yield "fetchers", self.fetchers.apply  # Needs the replicas that follow.
        yield "group coordinator", self.groups.apply  # Loads from the replicas that lead.
        yield "transaction coordinator", self.transactions.apply  # Writes markers for groups.
        if self.registered:
            yield "controller", self.controller.apply
            yield "automatic rebalance", self.rebalance.apply
