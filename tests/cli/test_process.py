"""The command as a process of its own: exit codes, signals, pipes and terminals."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import IO

import pytest

from tests.cli.conftest import Cli

OTTLA = [sys.executable, "-c", "import sys; from ottla.cli.main import main; sys.exit(main())"]


def environment(cli: Cli, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "FORCE_COLOR")}
    return {**kept, "TERM": "xterm", "OTTLA_BOOTSTRAP_SERVER": cli.bootstrap_server, **(extra or {})}


def start(cli: Cli, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*OTTLA, *arguments],
        env=environment(cli),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def on_a_terminal(cli: Cli, *arguments: str, **extra: str) -> str:
    """What a person would see."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*OTTLA, *arguments], env=environment(cli, extra), stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 4096):
            shown += chunk
    except OSError:
        pass  # Linux reports the end of a terminal as an error.
    os.close(master)
    assert process.wait() == 0, shown
    return shown.decode()


def test_a_whole_session_through_pipes(cli: Cli, unique: Callable[[str], str]) -> None:
    name = unique("clicks")

    def ottla(*arguments: str, stdin: str = "") -> str:
        process = subprocess.run(
            [*OTTLA, *arguments], env=environment(cli), input=stdin, capture_output=True, text=True, check=True
        )
        assert "\x1b" not in process.stdout + process.stderr
        return process.stdout

    assert ottla("topics", "create", name) == f"Created topic {name}.\n"
    assert ottla("produce", name, stdin="hello\n") == f"Delivered 1 record to {name}.\n"
    assert ottla("consume", name, "--from-beginning", "--max-messages", "1") == "hello\n"
    assert json.loads(ottla("topics", "describe", name, "--json"))[0]["partitions"][0]["latest"] == 1


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    process = start(Cli(address), "topics", "list")
    out, err = process.communicate()
    assert process.returncode == 1
    assert (out, err) == (
        "",
        f"No broker answered at {address}; start one with `ottla serve` or pass --bootstrap-server.\n",
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_consumer_that_is_stopped_commits(
    cli: Cli, topic: str, unique: Callable[[str], str], number: signal.Signals
) -> None:
    group = unique("group")
    cli.ok("produce", topic, "--partition", "0", stdin="a\nb\n")
    process = start(cli, "consume", topic, "--from-beginning", "--group", group)
    assert [output_of(process).readline() for _ in "ab"] == ["a\n", "b\n"]
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "", "Processed a total of 2 messages\n")
    assert cli.json("groups", "describe", group)[0]["current_offset"] == 2


def test_a_producer_that_is_interrupted_says_what_it_delivered(cli: Cli, topic: str) -> None:
    process = subprocess.Popen(
        [*OTTLA, "produce", topic, "-p", "0"],
        env=environment(cli),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("a\nb\n")
    process.stdin.flush()
    assert cli.ok("consume", topic, "--from-beginning", "-n", "2") == "a\nb\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, f"Interrupted: delivered 2 records to {topic}.\n", "")


def test_a_person_who_waits_for_nothing_gets_a_hint(cli: Cli, topic: str) -> None:
    shown = on_a_terminal(cli, "consume", topic, "--timeout-ms", "3500")
    assert "Waiting for new records; --from-beginning reads those that are already there." in shown
    shown = on_a_terminal(cli, "consume", topic, "--exit-at-end")
    assert "Reading started at the end of the topic" in shown


def test_a_reader_that_goes_away_ends_the_consumer_quietly(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "0", stdin="a\n")
    process = start(cli, "consume", topic, "--from-beginning")
    assert output_of(process).readline() == "a\n"
    output_of(process).close()
    assert process.stderr is not None
    assert process.stderr.read() in ("", "Processed a total of 1 messages\n")
    assert process.wait() == 0


def test_a_reader_that_never_came_is_no_failure(cli: Cli, topic: str) -> None:
    process = start(cli, "topics", "describe", topic)
    output_of(process).close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_colours_and_frames_are_for_terminals(cli: Cli, topic: str) -> None:
    coloured = on_a_terminal(cli, "topics", "describe", topic)
    assert "\x1b[" in coloured
    assert "─" in coloured
    plain = on_a_terminal(cli, "topics", "describe", topic, NO_COLOR="1")
    assert "\x1b[3" not in plain
    assert topic in plain


def test_a_terminal_is_told_how_to_type_records(cli: Cli, topic: str) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*OTTLA, "produce", topic], env=environment(cli), stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    while b"Ctrl-D ends." not in shown:
        shown += os.read(master, 4096)
    os.write(master, b"typed\n\x04")
    while b"Delivered 1 record" not in shown:
        shown += os.read(master, 4096)
    assert process.wait() == 0
    os.close(master)
