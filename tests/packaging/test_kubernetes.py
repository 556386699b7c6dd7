"""The Kubernetes example: its parts fit together, its variables are settings, and its probes are commands that work."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import ottla
from ottla.config.broker import BrokerConfig
from ottla.config.load import static_config
from tests.cli.conftest import Cli

FILE = Path(__file__).parents[2] / "packaging" / "kubernetes.yaml"
LABELS = {"app": "ottla"}
POD = {"metadata.name": "ottla-2", "metadata.labels['apps.kubernetes.io/pod-index']": "2"}


@pytest.fixture(scope="module")
def resources() -> dict[tuple[str, str], Any]:
    return {(it["kind"], it["metadata"]["name"]): it["spec"] for it in yaml.safe_load_all(FILE.read_text())}


@pytest.fixture(scope="module")
def stateful_set(resources: dict[tuple[str, str], Any]) -> Any:
    return resources["StatefulSet", "ottla"]


@pytest.fixture(scope="module")
def container(stateful_set: Any) -> Any:
    [container] = stateful_set["template"]["spec"]["containers"]
    return container


def test_selectors_and_ports_fit(resources: dict[tuple[str, str], Any], stateful_set: Any, container: Any) -> None:
    headless = resources["Service", stateful_set["serviceName"]]
    assert headless["clusterIP"] == "None"
    assert stateful_set["selector"]["matchLabels"] == stateful_set["template"]["metadata"]["labels"] == LABELS
    assert resources["PodDisruptionBudget", "ottla"] == {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    [port] = container["ports"]
    for service in (headless, resources["Service", "ottla-bootstrap"]):
        assert service["selector"] == LABELS
        assert service["publishNotReadyAddresses"] is True
        assert [it["targetPort"] for it in service["ports"]] == [port["name"]]


def test_the_variables_are_settings_of_a_broker(container: Any) -> None:
    values = {}
    for variable in container["env"]:
        field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        values[variable["name"]] = variable["value"] if field is None else POD[field]
    expanded = {name: value.replace("$(POD_NAME)", values["POD_NAME"]) for name, value in values.items()}
    config = BrokerConfig(static_config(environment=expanded))
    assert config.warnings == ()
    assert config.integer("node.id") == 2
    assert config.list("advertised.listeners") == ("PLAINTEXT://ottla-2.ottla:9092",)
    assert (config.integer("default.replication.factor"), config.integer("min.insync.replicas")) == (3, 2)


def test_every_replica_of_the_settings_fits_the_number_of_brokers(stateful_set: Any, container: Any) -> None:
    factors = [int(it["value"]) for it in container["env"] if it["name"].endswith("REPLICATION_FACTOR")]
    assert factors == [stateful_set["replicas"]] * 3


def test_an_update_goes_broker_by_broker_and_a_start_does_not(stateful_set: Any) -> None:
    assert stateful_set["updateStrategy"] == {"type": "RollingUpdate"}
    assert stateful_set["podManagementPolicy"] == "Parallel"
    assert stateful_set["template"]["spec"]["terminationGracePeriodSeconds"] >= 60


def test_nothing_runs_as_root(stateful_set: Any, container: Any) -> None:
    pod = stateful_set["template"]["spec"]["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert f"USER {pod['runAsUser']}\n" in (FILE.parent / "Containerfile").read_text()
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    [mount] = container["volumeMounts"]
    assert mount["mountPath"] == "/var/lib/ottla"


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_succeed_on_a_healthy_broker(probe: str, container: Any, cli: Cli) -> None:
    program, *arguments = container[probe]["exec"]["command"]
    assert program == "ottla"
    cli.ok(*arguments)


def test_only_readiness_depends_on_other_brokers(container: Any) -> None:
    asks_one = {name: "--one-broker" in container[name]["exec"]["command"] for name in container if "Probe" in name}
    assert asks_one == {"startupProbe": True, "readinessProbe": False, "livenessProbe": True}


def test_the_image_has_the_version_of_this_package(container: Any) -> None:
    assert container["image"] == f"ottla:{ottla.__version__}"
