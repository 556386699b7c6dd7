"""The Python that Spark's workers run on."""

import hashlib
import os
import sys
from pathlib import Path

_SHIM = """\
#!/bin/sh
# Spark puts archives of its Python sources before the package that is installed, which is the same and compiled: each
# of a dozen workers would spend a second of CPU on compiling them anew.
set -f
IFS=:
kept=
for part in $PYTHONPATH; do
  case $part in */pyspark.zip | */py4j-*-src.zip) ;; *) kept=$kept:$part ;; esac
done
PYTHONPATH=${{kept#:}} exec "{python}" "$@"
"""


def worker_python(cache: Path) -> Path:
    """A program that is this interpreter, without Spark's archives on its path; the interpreter where nothing can be
    written. The file appears whole or not at all."""
    text = _SHIM.format(python=sys.executable)
    target = cache / f"python-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    draft = cache / f".{target.name}-{os.getpid()}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        draft.write_text(text)
        draft.chmod(0o755)
        return draft.replace(target)
    except OSError:
        return Path(sys.executable)
