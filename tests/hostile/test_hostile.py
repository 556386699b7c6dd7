"""The short run, and the parts of it that can be wrong themselves. `make hostile` is the long run."""

import random
import struct
from pathlib import Path

import pytest

from ottla.handlers.registry import HANDLERS
from ottla.model import TopicId
from ottla.server.watchdog import HELD
from ottla.wire import codec
from ottla.wire.framing import parse_request_header
from tests.hostile.batches import Prebuilt
from tests.hostile.checks import BrokerLog, names_for_every_partition
from tests.hostile.damage import LIMIT, OTHER_PROTOCOLS, SENTINEL, Damage, ends_within_a_frame
from tests.hostile.requests import Requests
from tests.hostile.run import MAX_SILENCE, Plan, Run
from tests.hostile.values import World

SHORT = 20_000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hostile_clients_harm_nobody_else(tmp_path: Path) -> None:
    # A machine that is four times slower holds the loop four times as long.
    run = Run(Plan(seed=15, requests=SHORT, max_hold_ms=400), tmp_path, print)
    outcome = run.run()
    print("\n".join(outcome.facts))
    assert outcome.findings == []
    assert any(fact.startswith(f"{SHORT} well-formed requests") for fact in outcome.facts)
    assert any(fact.startswith(f"{SHORT} damaged requests") for fact in outcome.facts)
    assert 0 < run.bystander.longest_of_broker <= MAX_SILENCE
    assert run.bystander.rounds > 20, "the bystander did not work meanwhile: nothing was proved"


@pytest.fixture(scope="module")
def shared() -> Prebuilt:
    return Prebuilt()


def world() -> World:
    return World({"plain": TopicId(b"i" * 16)})


def test_every_version_of_every_api_is_drawn_and_can_be_decoded(shared: Prebuilt) -> None:
    requests = Requests("seed", world(), shared)
    missing = {
        (served.api.key, version)
        for served in HANDLERS.values()
        for version in range(served.api.min_version, served.api.max_version + 1)
    }
    for _ in range(100_000):
        template = requests.draw()
        key = template.api.key, template.version
        if key in missing:
            missing.remove(key)
            body = memoryview(template.data)[4:]
            header = parse_request_header(body)
            assert (header.api_key, header.api_version) == key
            _, end = codec.decode(template.api.request, body, template.version, header.body_position)
            assert end == len(body)
        if not missing:
            break
    assert missing == set()


def test_a_seed_gives_its_requests_again(shared: Prebuilt) -> None:
    first, second, other = (Requests(seed, world(), shared) for seed in ("1", "1", "2"))
    sequence = [bytes(first.draw().data) for _ in range(500)]
    assert sequence == [bytes(second.draw().data) for _ in range(500)]
    assert sequence != [bytes(other.draw().data) for _ in range(500)]


def test_a_seed_gives_its_damage_again(shared: Prebuilt) -> None:
    first, second = (Damage("1", Requests("1", world(), shared)) for _ in range(2))
    assert [bytes(first.draw()) for _ in range(500)] == [bytes(second.draw()) for _ in range(500)]


@pytest.mark.parametrize(
    "stream, waits",
    [
        (b"", False),
        (SENTINEL, False),
        (SENTINEL[:-1], True),
        (SENTINEL + b"\0", True),
        (struct.pack(">i", -1) + b"xx", False),
        (struct.pack(">i", LIMIT + 1), False),
        (struct.pack(">i", LIMIT), True),
        *((hello, False) for hello in OTHER_PROTOCOLS[:4]),
    ],
)
def test_what_leaves_the_broker_waiting(stream: bytes, waits: bool) -> None:
    assert ends_within_a_frame(stream) == waits


def test_there_is_a_name_for_every_partition() -> None:
    assert len(set(names_for_every_partition("check", 50))) == 50


def test_the_log_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    text = (
        "[12:00] INFO ready (ottla)\n"
        "[12:00] WARNING closing the connection of 127.0.0.1:5: API 99 is not served (ottla.server)\n"
        "[12:00] WARNING closing the connection of 127.0.0.1:6: API 98 is not served (ottla.server)\n"
        "[12:00] ERROR a request of 127.0.0.1:4711 failed; closing its connection (ottla.server)\n"
        "Traceback (most recent call last):\n"
        '  File "/src/ottla/server/connection.py", line 10, in received\n'
        "    self.serve()\n"
        '  File "/src/ottla/groups/core.py", line 20, in begin\n'
        "    raise RuntimeError(5)\n"
        "RuntimeError: 5\n"
        f"[12:00] WARNING {HELD} 312 ms by Metadata (handlers/metadata.py:88 describe) (ottla.watchdog)\n"
        "[12:00] ERROR damaged records (ottla.log)\n"
        "[12:00] INFO Group [12:00] ERROR forged\\n is empty (ottla.coordinator)\n"
    )
    path.write_text("")
    log = BrokerLog(path)
    rng = random.Random(1)
    with path.open("a") as file:
        while text:
            size = rng.randrange(1, 80)
            file.write(text[:size])
            file.flush()
            text = text[size:]
            log.read()
    log.close()
    assert log.closings == {"API N is not served (ottla.server)": 2}
    traceback = "RuntimeError: N (groups/core.py:20 begin, server/connection.py:10 received)"
    assert log.tracebacks == {traceback: 1}
    assert log.errors == {"ERROR a request of N.N.N.N:N failed; closing its connection (ottla.server)": 1}
    assert log.culprits[traceback] == 4711
    assert list(log.held) == ["by Metadata (handlers/metadata.py:88 describe) (ottla.watchdog)"]
    assert list(log.longest_holds.values()) == [312]
