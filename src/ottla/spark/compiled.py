"""Spark's Python part as it is installed, and compiled, instead of an archive of its sources.

Spark puts `pyspark.zip` before everything else on the path of its Python processes, which compile what they import from
it, at every start: a second of CPU instead of a third of one, in each process that plans a query or runs tasks. The
file `ottla-spark.pth`, which Python reads when it starts, comes here if such an archive is on the path, and in no other
process.
"""

from pathlib import Path


def prefer(path: list[str]) -> None:
    """Take the archives of a pyspark from a path on which that very pyspark is installed. All others stay."""
    for archive in [Path(part) for part in path if part.endswith("/python/lib/pyspark.zip")]:
        if any(home.samefile(archive.parents[2]) for home in _installed(path, "pyspark")):
            path.remove(str(archive))
            for py4j in archive.parent.glob("py4j-*-src.zip"):
                if str(py4j) in path and _installed(path, "py4j"):
                    path.remove(str(py4j))


def _installed(path: list[str], package: str) -> list[Path]:
    return [Path(part, package) for part in path if Path(part, package).is_dir()]
