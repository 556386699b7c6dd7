"""The three orders of processing and committing: what their programs print, and what another client then reads.

`OTTLA_COMPAT_BOOTSTRAP=host:port` runs them against Apache Kafka instead, as with the compatibility tests.
"""

import os
import re
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition

import ottla
from tests.examples.programs import PAGE, run

AT_MOST_ONCE = """\
worker    killed after it committed its offsets, before it wrote the invoices
worker    done
orders    1 2 3 4 5 6 7 8 9 10 11 12
invoices  1 2 3 4 9 10 11 12
lost      5 6 7 8
repeated  none
"""
AT_LEAST_ONCE = """\
worker    killed after it wrote the invoices, before it committed its offsets
worker    done
orders    1 2 3 4 5 6 7 8 9 10 11 12
invoices  1 2 3 4 5 6 7 8 5 6 7 8 9 10 11 12
lost      none
repeated  5 6 7 8
"""
EXACTLY_ONCE = """\
worker    killed after it wrote the invoices, before it added the offsets
worker    killed after it added the offsets, before it committed the transaction
worker    killed after it committed the transaction
worker    done
in log    1 2 3 4 5 6 7 8 5 6 7 8 5 6 7 8 9 10 11 12 (as read_uncommitted sees it)
orders    1 2 3 4 5 6 7 8 9 10 11 12
invoices  1 2 3 4 5 6 7 8 9 10 11 12
lost      none
repeated  none
"""
PRINTED = {"at_most_once": AT_MOST_ONCE, "at_least_once": AT_LEAST_ONCE, "exactly_once": EXACTLY_ONCE}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    if external := os.environ.get("OTTLA_COMPAT_BOOTSTRAP"):
        yield external
    else:
        with ottla.embedded({"group.initial.rebalance.delay.ms": "0"}) as broker:
            yield broker.bootstrap_servers


@pytest.mark.parametrize(
    "program, committed, uncommitted",
    [
        ("at_most_once", [1, 2, 3, 4, 9, 10, 11, 12], [1, 2, 3, 4, 9, 10, 11, 12]),
        ("at_least_once", [*range(1, 9), *range(5, 13)], [*range(1, 9), *range(5, 13)]),
        ("exactly_once", [*range(1, 13)], [*range(1, 9), *range(5, 9), *range(5, 13)]),
    ],
)
def test_a_worker_that_is_killed(bootstrap: str, program: str, committed: list[int], uncommitted: list[int]) -> None:
    first_line, printed = run(program, "--bootstrap-server", bootstrap).split("\n", 1)
    assert printed == PRINTED[program]
    names = re.fullmatch(r"orders-(\w+) -> invoices-\1 on " + re.escape(bootstrap), first_line)
    assert names is not None, first_line
    assert invoices(bootstrap, f"invoices-{names[1]}", "read_committed") == committed
    assert invoices(bootstrap, f"invoices-{names[1]}", "read_uncommitted") == uncommitted
    assert committed_offset(bootstrap, f"billing-{names[1]}", f"orders-{names[1]}") == 12


def test_without_an_argument_the_program_starts_a_broker() -> None:
    assert run("at_least_once").split("\n", 1)[1] == AT_LEAST_ONCE


@pytest.mark.parametrize("program", PRINTED)
def test_the_page_shows_what_the_program_prints(program: str) -> None:
    assert f"$ python examples/{program}.py\n" in PAGE.read_text()
    assert PRINTED[program] in PAGE.read_text()


def invoices(bootstrap: str, topic: str, isolation_level: str) -> list[int]:
    """Read with another client than the program's own, up to the end offset of that isolation level."""
    place = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation_level)
    try:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        numbers: list[int] = []
        while consumer.position(place) < end:
            messages = consumer.poll(timeout_ms=1000).get(place, [])
            numbers.extend(int(message.value.split()[-1]) for message in messages)
        return numbers
    finally:
        consumer.close()


def committed_offset(bootstrap: str, group: str, topic: str) -> int | None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    try:
        offset: int | None = consumer.committed(TopicPartition(topic, 0))
        return offset
    finally:
        consumer.close()
