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


def with_command(directory: Path) -> dict[str, str]:
    """An environment in which `ottla` runs these sources."""
    command = directory / "ottla"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom ottla.cli.main import main\nsys.argv[0] = 'ottla'\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


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
        (["ottla", "serve", "--da"], ["--data-dir"]),
    ],
)
def test_bash_completes(tmp_path: Path, words: list[str], expected: list[str]) -> None:
    """Load the script into a real bash and call the function that bash calls when a person presses Tab."""
    asked = " ".join(words)
    press_tab = (
        f'{script("bash")}\nCOMP_WORDS=({asked}); COMP_CWORD={len(words) - 1}; COMP_LINE="{asked}"\n'
        '$(complete -p ottla | grep -oE "_[a-z_]+completion") ottla\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    process = subprocess.run(
        ["bash", "--norc", "-c", press_tab], env=with_command(tmp_path), capture_output=True, text=True, check=True
    )
    assert sorted(process.stdout.split()) == expected, process.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_without_other_configuration_loads_the_script(tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text(script("zsh"))
    environment = {**with_command(tmp_path), "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    process = subprocess.run(
        ["zsh", "-o", "no_global_rcs", "-ic", "print $_comps[ottla]"], env=environment, capture_output=True, text=True
    )
    assert process.stdout.split() == ["_ottla_completion"], process.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(tmp_path: Path) -> None:
    (tmp_path / "ottla.fish").write_text(script("fish"))
    environment = {**with_command(tmp_path), "HOME": str(tmp_path)}
    asked = f"source {tmp_path}/ottla.fish; complete -C 'ottla topics de'"
    process = subprocess.run(["fish", "-c", asked], env=environment, capture_output=True, text=True, check=True)
    found = [line.split("\t")[0] for line in process.stdout.splitlines()]
    assert found == ["delete", "delete-records", "describe"], process.stderr
