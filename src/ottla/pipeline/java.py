"""The Java that Spark runs on."""

import os
from collections.abc import Mapping
from pathlib import Path

from ottla.env.java import HOW_TO_GET_JAVA, OLDEST_JAVA, NoJava, find_java
from ottla.pipeline.failures import PipelineError

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
    """What JAVA_HOME has to be, or None where Spark finds the right Java by itself. Raises PipelineError.

    Spark takes JAVA_HOME when it is set, whatever is there, and the PATH otherwise.
    """
    try:
        java = find_java(environment)
    except NoJava as error:
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or newer and {error}: {HOW_TO_GET_JAVA}.") from None
    if java.bundled:
        return _shimmed(java.command, cache)
    given = environment.get("JAVA_HOME")
    if not given or java.command == Path(given) / "bin" / "java":
        return None
    return java.home


def _shimmed(java: Path, cache: Path) -> Path:
    """A directory that is a JAVA_HOME, with a `java` that leaves one argument out. Written whole or not at all."""
    directory = cache / "java"
    (directory / "bin").mkdir(parents=True, exist_ok=True)
    draft = directory / "bin" / f".java-{os.getpid()}"
    draft.write_text(_SHIM.format(java=java))
    draft.chmod(0o755)
    draft.replace(directory / "bin" / "java")
    return directory
