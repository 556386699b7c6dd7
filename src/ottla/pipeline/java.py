"""Find the Java runtime for Spark."""

import os
from collections.abc import Mapping
from pathlib import Path

from ottla.env.java import HOW_TO_GET_JAVA, OLDEST_JAVA, NoJava, find_java
from ottla.pipeline.failures import PipelineError

_SHIM = """\
#!/bin/sh
# Remove the option for a module that the bundled Java runtime does not have and that Spark does not need.
for argument do
  shift
  case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str], cache: Path) -> Path | None:
    """The value for JAVA_HOME, or None if Spark finds a suitable Java without it. Raises PipelineError.

    Spark uses JAVA_HOME if it is set, without checking the version, and otherwise the `java` on the PATH.
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
    """Create a JAVA_HOME whose `java` removes one option. The file is replaced atomically."""
    directory = cache / "java"
    (directory / "bin").mkdir(parents=True, exist_ok=True)
    draft = directory / "bin" / f".java-{os.getpid()}"
    draft.write_text(_SHIM.format(java=java))
    draft.chmod(0o755)
    draft.replace(directory / "bin" / "java")
    return directory
