"""What each kind of producer loses or repeats when its broker is killed, to the last record."""

from tests.examples.programs import PAGE, run

PRINTED = """\
the broker is killed with records 4 5 6 on their way to it
producer              told before  told after  in the log         lost   repeated
acks=0                1 2 3 4 5 6  none        1 2 3              4 5 6  none
acks=1                1 2 3        4 5 6       1 2 3 4 5 6        none   none
acks=all              1 2 3        4 5 6       1 2 3 4 5 6        none   none
acks=all, idempotent  1 2 3        4 5 6       1 2 3 4 5 6        none   none

the broker is killed after it wrote records 4 5 6, with its answers on the way back
producer              told before  told after  in the log         lost   repeated
acks=0                1 2 3 4 5 6  none        1 2 3 4 5 6        none   none
acks=1                1 2 3        4 5 6       1 2 3 4 5 6 4 5 6  none   4 5 6
acks=all              1 2 3        4 5 6       1 2 3 4 5 6 4 5 6  none   4 5 6
acks=all, idempotent  1 2 3        4 5 6       1 2 3 4 5 6        none   none

"""


def test_a_broker_that_is_killed() -> None:
    assert run("producer_acks") == PRINTED


def test_the_page_shows_what_the_program_prints() -> None:
    assert "$ python examples/producer_acks.py\n" + PRINTED.rstrip("\n") in PAGE.read_text()
