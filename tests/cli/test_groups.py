import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.cli.conftest import Cli


@pytest.fixture
def group(cli: Cli, topic: str, unique: Callable[[str], str]) -> str:
    """A group without members that is past two of the three records of partition 0."""
    name = unique("reports")
    cli.ok("produce", topic, "--partition", "0", stdin="a\nb\nc\n")
    cli.ok("groups", "reset-offsets", name, "--topic", f"{topic}:0", "--to-offset", "2", "--execute")
    return name


@pytest.fixture
def active_group(cli: Cli, topic: str, unique: Callable[[str], str]) -> Iterator[str]:
    """A group with one member that owns all partitions of the topic."""
    name = unique("active")
    consumer = Consumer({"bootstrap.servers": cli.bootstrap_server, "group.id": name, "client.id": "reader"})
    assigned: list[object] = []
    consumer.subscribe([topic], on_assign=lambda _consumer, partitions: assigned.append(partitions))
    while not assigned:
        consumer.poll(0.05)
    yield name
    consumer.close()


def table(text: str) -> list[dict[str, str]]:
    heading, *rows = (line.split() for line in text.splitlines())
    return [dict(zip(heading, row, strict=True)) for row in rows]


def test_list(cli: Cli, group: str) -> None:
    assert group in cli.ok("groups", "list").splitlines()
    assert {"group": group, "state": "Empty", "type": "Classic"} in cli.json("groups", "list")
    assert {"GROUP": group, "STATE": "Empty", "TYPE": "Classic"} in table(cli.ok("groups", "list", "--state"))


def test_describe_shows_the_lag(cli: Cli, topic: str, group: str) -> None:
    result = cli("groups", "describe", group)
    assert result.stderr == f"Consumer group '{group}' has no active members.\n"
    assert result.stdout.splitlines()[0].split() == (
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    )
    row = table(result.stdout)[0]
    assert list(row.values()) == [group, topic, "0", "2", "3", "1", "-", "-", "-"]
    assert cli.json("groups", "describe", group)[0] == {
        "group": group,
        "topic": topic,
        "partition": 0,
        "current_offset": 2,
        "log_end_offset": 3,
        "lag": 1,
        "consumer_id": None,
        "host": None,
        "client_id": None,
    }


def test_describe_an_active_group(cli: Cli, topic: str, active_group: str) -> None:
    rows = table(cli.ok("groups", "describe", active_group))
    assert [(row["PARTITION"], row["CURRENT-OFFSET"], row["LAG"], row["CLIENT-ID"]) for row in rows] == [
        (number, "-", "-", "reader") for number in "012"
    ]
    (member,) = table(cli.ok("groups", "describe", active_group, "--members"))
    assert (member["CLIENT-ID"], member["#PARTITIONS"], member["ASSIGNMENT"]) == ("reader", "3", f"{topic}(0,1,2)")
    (state,) = cli.json("groups", "describe", active_group, "--state")
    assert (state["state"], state["members"], state["assignment_strategy"]) == ("Stable", 1, "range")


def test_an_active_group_is_left_alone(cli: Cli, topic: str, active_group: str) -> None:
    assert cli.fails("groups", "delete", active_group) == (
        f"Consumer group '{active_group}' still has active members; stop its consumers first."
    )
    assert cli.fails("groups", "reset-offsets", active_group, "--topic", topic, "--to-earliest", "--execute") == (
        f"Consumer group '{active_group}' is Stable; stop its consumers before you move its offsets."
    )


def test_delete(cli: Cli, group: str) -> None:
    assert cli.ok("groups", "delete", group) == f"Deleted consumer group {group}.\n"
    assert group not in cli.ok("groups", "list").splitlines()


def test_a_group_that_is_not_there(cli: Cli, unique: Callable[[str], str]) -> None:
    missing = unique("missing")
    sentence = f"Consumer group '{missing}' does not exist; see `ottla groups list`."
    assert cli.fails("groups", "describe", missing) == sentence
    assert cli.fails("groups", "describe", missing, "--members") == sentence
    assert cli.fails("groups", "delete", missing) == sentence


def test_reset_is_a_dry_run_unless_told(cli: Cli, topic: str, group: str) -> None:
    reset = ["groups", "reset-offsets", group, "--topic", topic, "--to-earliest"]
    result = cli(*reset)
    assert result.stderr == "Nothing was changed; add --execute to commit these offsets.\n"
    rows = table(result.stdout)
    assert [row["CURRENT-OFFSET"] for row in rows] == ["2", "-", "-"]
    assert [row["NEW-OFFSET"] for row in rows] == ["0", "0", "0"]
    assert cli.json("groups", "describe", group)[0]["current_offset"] == 2
    assert cli(*reset, "--execute").stderr == ""
    assert cli.json("groups", "describe", group)[0]["current_offset"] == 0
    assert cli.ok("consume", topic, "--group", group, "--exit-at-end") == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("move", "offset"),
    [
        (["--to-latest"], 3),
        (["--to-offset", "1"], 1),
        (["--to-offset", "100"], 3),
        (["--shift-by", "-1"], 1),
        (["--shift-by", "-100"], 0),
        (["--shift-by", "1"], 3),
        (["--to-current"], 2),
        (["--by-duration", "1h"], 0),
        (["--by-duration", "PT0S"], 3),
        (["--to-datetime", "2001-01-01T00:00:00"], 0),
        (["--to-datetime", "2999-01-01T00:00:00+02:00"], 3),
    ],
)
def test_where_reset_moves_to(cli: Cli, topic: str, group: str, move: list[str], offset: int) -> None:
    answer = cli.json("groups", "reset-offsets", group, "--topic", f"{topic}:0", *move, "--execute")
    assert answer == {
        "executed": True,
        "offsets": [{"group": group, "topic": topic, "partition": 0, "current_offset": 2, "new_offset": offset}],
    }
    assert cli.json("groups", "describe", group)[0]["current_offset"] == offset


def test_offsets_go_through_a_file(cli: Cli, topic: str, group: str, tmp_path: Path) -> None:
    reset = ["groups", "reset-offsets", "--group", group]
    exported = cli.ok(*reset, "--all-topics", "--to-current", "--export")
    assert exported == f"{topic},0,2\n"
    file = tmp_path / "offsets.csv"
    file.write_text(f'"{topic}",0,1\n"other-group","{topic}",0,0\n"{group}",{topic},1,0\n\n')
    cli.ok(*reset, "--from-file", str(file), "--execute")
    offsets = {row["partition"]: row["current_offset"] for row in cli.json("groups", "describe", group)}
    assert offsets == {0: 1, 1: 0}
    cli.ok(*reset, "--topic", f"{topic}:0", "--from-file", str(file), "--execute")
    file.write_text(f"{topic},0\n")
    assert cli.fails(*reset, "--from-file", str(file)) == f"Line 1 of {file} is not of the form TOPIC,PARTITION,OFFSET."
    file.write_text(f"{topic},9,0\n")
    assert cli.fails(*reset, "--from-file", str(file)).startswith(f"Topic '{topic}' has no partition 9")


def test_watch_prints_a_line_for_each_reading(cli: Cli, topic: str, group: str) -> None:
    first, second = cli.ok("groups", "watch", group, "-n", "2", "-i", "0.1").splitlines()
    prefix = f"group={group} state=Empty members=0 lag=1"
    assert first.endswith(f"{prefix} read_per_second=- written_per_second=-")
    assert second.endswith(f"{prefix} read_per_second=0.0 written_per_second=0.0")
    (line,) = cli.ok("groups", "watch", "-n", "1", "--json", group).splitlines()
    assert json.loads(line)["lag"] == 1
    assert "does not exist" in cli.fails("groups", "watch", f"{group}-missing")


def test_reset_can_make_a_group(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    name = unique("new")
    cli.ok("groups", "reset-offsets", name, "--topic", topic, "--to-earliest", "--execute")
    assert [row["current_offset"] for row in cli.json("groups", "describe", name)] == [0, 0, 0]


def test_reset_of_what_is_not_there(cli: Cli, topic: str, group: str, unique: Callable[[str], str]) -> None:
    reset = ["groups", "reset-offsets", group, "--topic"]
    assert "does not exist" in cli.fails(*reset, unique("missing"), "--to-earliest")
    assert (
        cli.fails(*reset, f"{topic}:7", "--to-earliest")
        == f"Topic '{topic}' has no partition 7; it has 3, numbered from 0."
    )
    assert "no committed offset for" in cli.fails(
        "groups", "reset-offsets", unique("new"), "--topic", topic, "--shift-by", "1"
    )


def test_delete_offsets(cli: Cli, topic: str, group: str) -> None:
    cli.ok("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    assert table(cli.ok("groups", "delete-offsets", group, "--topic", f"{topic}:0")) == [
        {"TOPIC": topic, "PARTITION": "0", "STATUS": "Successful"}
    ]
    assert [row["partition"] for row in cli.json("groups", "describe", group)] == [1, 2]
    assert len(cli.json("groups", "delete-offsets", group, "--topic", topic)) == 3


def test_offsets_that_are_kept(cli: Cli, topic: str, group: str, active_group: str) -> None:
    assert cli.fails("groups", "delete-offsets", active_group, "--topic", topic) == (
        f"Consumer group '{active_group}' still reads {topic}; stop its consumers first."
    )
    assert "does not exist" in cli.fails("groups", "delete-offsets", f"{group}-missing", "--topic", topic)


def test_wrong_usage(cli: Cli, topic: str) -> None:
    reset = ["groups", "reset-offsets", "g", "--topic", topic]
    assert "exactly one of --to-earliest" in cli.refuses(*reset)
    assert "exactly one of --to-earliest" in cli.refuses(*reset, "--to-earliest", "--to-latest")
    assert "give --topic, --all-topics or --from-file" in cli.refuses("groups", "reset-offsets", "g", "--to-earliest")
    assert "not a duration" in cli.refuses(*reset, "--by-duration", "soon")
    assert "--export changes nothing" in cli.refuses(*reset, "--to-earliest", "--export", "--execute")
    assert "contradict" in cli.refuses(*reset, "--to-earliest", "--dry-run", "--execute")
    assert "not a date and time" in cli.refuses(*reset, "--to-datetime", "yesterday")
    assert "TOPIC:0,1" in cli.refuses("groups", "reset-offsets", "g", "--topic", f"{topic}:x", "--to-earliest")
    assert "leave one out" in cli.refuses("groups", "describe", "g", "--members", "--state")
