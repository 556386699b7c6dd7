"""`python -m tests.compiled`: fails unless every module that pyproject.toml lists is imported as an extension module.

`make test-compiled` runs this first, so that it cannot test the interpreted modules by mistake.
"""

import importlib
import importlib.machinery
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def listed_modules() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    return [path.removeprefix("src/").removesuffix(".py").replace("/", ".") for path in hook["compiled-modules"]]


def is_compiled(module: str) -> bool:
    file = importlib.import_module(module).__file__ or ""
    return file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def needs_interpreted(module: str) -> pytest.MarkDecorator:
    """For a test that replaces a method: compiled modules call the methods of each other directly."""
    return pytest.mark.skipif(is_compiled(module), reason=f"replaces a method of {module}, which is compiled")


def main() -> int:
    modules = listed_modules()
    interpreted = [module for module in modules if not is_compiled(module)]
    if interpreted:
        print(f"not compiled: {', '.join(interpreted)}", file=sys.stderr)
        return 1
    print(f"{len(modules)} modules are compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
