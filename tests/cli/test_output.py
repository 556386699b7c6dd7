import pytest

from ottla.cli.command_error import CommandError
from ottla.cli.output import each, print_table


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
