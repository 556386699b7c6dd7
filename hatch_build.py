"""Build hook: with OTTLA_COMPILE=1 the wheel holds the modules listed in pyproject.toml compiled by mypyc as well.

The sources stay in the wheel. Python prefers an extension module over the source beside it.
"""

import os
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GROUP = "ottla"
"""All modules share one library, `ottla__mypyc`, so that calls between them are calls in C."""


class CompileHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return ["mypy>=2.4", "setuptools>=65"] if self._enabled() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not self._enabled():
            return
        # hatchling packs the files after this method returns, so the directory has to outlive the method.
        self._output = tempfile.TemporaryDirectory(prefix="ottla-compile-")
        built = _compile(Path(self.root), self.config["compiled-modules"], Path(self._output.name))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): name for path, name in built})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable" and self._enabled():
            self._output.cleanup()

    @staticmethod
    def _enabled() -> bool:
        return os.environ.get("OTTLA_COMPILE") == "1"


def _compile(root: Path, modules: list[str], output: Path) -> list[tuple[Path, str]]:
    """Each extension module, and its path in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    before = Path.cwd()
    os.chdir(root)  # mypy resolves its configuration and the names of the modules from here.
    try:
        options = ["--config-file", "pyproject.toml", "--cache-dir", str(output / "cache")]
        extensions = mypycify([*options, *modules], group_name=GROUP, target_dir=str(output / "c"), debug_level="0")
        distribution = Distribution({"name": GROUP, "ext_modules": extensions})
        command: Any = distribution.get_command_obj("build_ext")
        command.build_lib = str(output / "lib")
        command.build_temp = str(output / "objects")
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    built = sorted((output / "lib").rglob(f"*{suffix}"))
    return [(path, path.relative_to(output / "lib").as_posix()) for path in built]
