"""Load the declarations for `FILE[:NAME]` on the command line."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ottla.pipeline.declaration import Pipeline
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.parameters import parameters

BUILT_IN = {
    "activity": "Page views, searches and clicks: sessions, top pages, click-through.",
    "logs": "Log lines of many services: parquet by day and service, error rates.",
    "metrics": "Measurements of many hosts: windowed aggregates, alerts.",
    "changes": "Changes of rows by key: the current table and its history.",
    "export": "The history of a topic as parquet, by day.",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A file and the selected pipelines in it."""

    label: str
    """The name of the file or of the built-in target. Checkpoints are in a directory of this name."""
    pipelines: tuple[Pipeline, ...]
    others: tuple[Pipeline, ...]
    """The other pipelines of the file."""

    @property
    def everything(self) -> tuple[Pipeline, ...]:
        return self.pipelines + self.others


def load_target(text: str, given: Mapping[str, str] | None = None) -> Target:
    """Load a file or a built-in module, with parameters. Raises PipelineError."""
    location, name = _split(text)
    with parameters(given or {}) as unknown:
        label, module = _load(location)
    if unknown:
        raise PipelineError(f"{location} has no parameter {min(unknown)}.")
    found = {value.name: value for value in vars(module).values() if isinstance(value, Pipeline)}
    if not found:
        raise PipelineError(f"{location} declares no pipeline: put @pipeline(...) before a function.")
    if name is None:
        return Target(label, tuple(found.values()), ())
    if name not in found:
        raise PipelineError(f"{location} has no pipeline {name}; it has {', '.join(found)}.")
    others = tuple(each for key, each in found.items() if key != name)
    return Target(label, (found[name],), others)


def _split(text: str) -> tuple[str, str | None]:
    location, colon, name = text.rpartition(":")
    if colon and not Path(text).exists():
        return location, name or None
    return text, None


def _load(location: str) -> tuple[str, ModuleType]:
    if location in BUILT_IN:
        return location, _fresh(f"ottla.pipeline.builtin.{location}.pipelines")
    path = Path(location)
    if not path.is_file():
        known = ", ".join(BUILT_IN)
        raise PipelineError(f"There is no file {location}; the built-in pipelines are {known}.")
    return path.stem, _import_file(path)


def load_part(name: str, part: str, given: Mapping[str, str] | None = None) -> ModuleType:
    """The traffic or report module of a built-in target. Raises PipelineError."""
    if name not in BUILT_IN:
        raise PipelineError(f"{name} is not built in; the built-in pipelines are {', '.join(BUILT_IN)}.")
    with parameters(given or {}) as unknown:
        if part == "report":
            _fresh(f"ottla.pipeline.builtin.{name}.pipelines")
        module = _fresh(f"ottla.pipeline.builtin.{name}.{part}")
    if unknown:
        raise PipelineError(f"{name} has no parameter {min(unknown)}.")
    return module


def _fresh(name: str) -> ModuleType:
    """Import or reload a module, so that it reads the current parameters."""
    if name in sys.modules:
        return importlib.reload(sys.modules[name])
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    """Import a file. It can import modules from its own directory, but installed modules take precedence."""
    name = f"ottla_pipeline_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file; its name must end with .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        line = _line_in(path, error)
        raise PipelineError(f"{path}{line} cannot be read: {type(error).__name__}: {error}.") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _line_in(path: Path, error: Exception) -> str:
    """The line of the file in which the error occurred."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f":{error.lineno}"
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == str(path)]
    return f":{frames[-1].lineno}" if frames else ""
