import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.cli.app import app


def script(shell: str) -> str:
    result = CliRunner().invoke(app, ["completion", shell])
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    assert f"complete_{shell}" in script(shell)


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert CliRunner().invoke(app, ["completion", "tcsh"]).exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ottla", "top"], ["topics"]),
        (["ottla", "topics", "de"], ["delete", "delete-records", "describe"]),
        (["ottla", "consume", "clicks", "--from-b"], ["--from-beginning"]),
    ],
)
def test_bash_completes(tmp_path: Path, words: list[str], expected: list[str]) -> None:
    """Load the script into a real bash and call the function that bash calls when a person presses Tab."""
    command = tmp_path / "ottla"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom ottla.cli.main import main\nsys.argv[0] = 'ottla'\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    asked = " ".join(words)
    press_tab = (
        f'{script("bash")}\nCOMP_WORDS=({asked}); COMP_CWORD={len(words) - 1}; COMP_LINE="{asked}"\n'
        '$(complete -p ottla | grep -oE "_[a-z_]+completion") ottla\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.run(
        ["bash", "--norc", "-c", press_tab], env=environment, capture_output=True, text=True, check=True
    )
    assert sorted(process.stdout.split()) == expected, process.stderr
