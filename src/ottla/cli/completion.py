"""`ottla completion`: the script with which a shell completes `ottla` commands."""

import enum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

from ottla.cli.main import COMPLETE_VARIABLE
from ottla.cli.options import single

app = single()


LOAD_ZSH_COMPLETION = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"
"""A zsh without a configuration of its own has not loaded its completion system."""


class Shell(enum.StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(help="Shell that runs the script.", show_default=False)],
) -> None:
    """Print a script that completes commands and options in your shell.

    \b
    Examples:
      ottla completion bash >> ~/.bashrc
      ottla completion zsh >> ~/.zshrc
      ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    completion_init()
    if shell is Shell.ZSH:
        print(LOAD_ZSH_COMPLETION)
    print(get_completion_script(prog_name="ottla", complete_var=COMPLETE_VARIABLE, shell=shell.value))
