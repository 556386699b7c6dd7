import pytest
from rich.console import Console

from ottla.cli.command_error import CommandError
from ottla.cli.output import Cell, count, each, first_few, print_table, rich_table


def test_a_plain_table_is_aligned_and_keeps_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NAME", "LAG", "HOST"], [("a-long-name", 1, None), ("b", 1000, "")])
    assert capsys.readouterr().out == ("NAME         LAG   HOST\na-long-name  1     -\nb            1000  -\n")


def test_each_does_what_it_can_before_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def act(name: str) -> None:
        if name != "good":
            raise CommandError(f"{name} failed.")

    with pytest.raises(CommandError) as failure:
        each(["bad", "good", "worse", "good"], act, "done", "Did {}.", json=False)
    assert str(failure.value) == "bad failed.\nworse failed."
    assert capsys.readouterr().out == "Did good.\n"


def test_a_wide_table_breaks_headings_only_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns = ["TOPIC", "UNDER-REPLICATED", "RECORDS/S", "SIZE"]
    rows: list[list[Cell]] = [["a-topic-with-a-long-name", 0, "1,000", "1.5 MB"]]
    console = Console(width=40)
    with console.capture() as shown:
        console.print(rich_table(columns, rows))
    lines = [line.rstrip() for line in shown.get().splitlines()]
    assert lines[0].split() == ["UNDER-", "RECORDS/"]
    assert lines[1].split() == ["TOPIC", "REPLICATED", "S", "SIZE"]
    assert max(map(len, lines)) <= 40
    assert "".join(line[:12].strip() for line in lines[3:]).startswith("a-topic")


def test_a_table_that_fits_has_one_line_of_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console = Console(width=40)
    with console.capture() as shown:
        console.print(rich_table(["TOPIC", "UNDER-REPLICATED"], [["clicks", 0], ["views", 12]]))
    lines = [line.rstrip() for line in shown.get().splitlines()]
    assert lines[0] == "TOPIC   UNDER-REPLICATED"
    assert lines[2:] == ["clicks                 0", "views                 12"]


def test_a_long_list_is_cut() -> None:
    assert first_few("abcde") == "a, b, c, d, e"
    assert first_few(range(1007), "; ") == "0; 1; 2; 3; 4 and 1,002 more"


def test_numbers_of_things() -> None:
    assert [count(number, "record") for number in (0, 1, 1000)] == ["0 records", "1 record", "1,000 records"]
