"""Go programs that only tests use: each is built once from pinned modules, and kept in the project's cache.

The programs: `helm`, `certmanager`, `promtool`, `kubeconform` and `crdvalidator`.
"""

import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dev.cluster.assets import MIN_FREE_MIB, content_key, default_cache_root, install_once, platform_name
from dev.cluster.build import compile_packages, module_folder

_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w")


@dataclass(frozen=True, slots=True)
class Program:
    """A Go program to build. `module` is the folder with go.mod and go.sum, and with our Go files, if there are any.

    `data` names a module that it needs and a folder there, whose YAML files are kept beside the executable. `flags` are
    more flags for Go. `modfile` is read in the place of go.mod, with its .sum file.
    """

    name: str
    module: Path
    package: str
    data: tuple[str, str] | None = None
    flags: tuple[str, ...] = ()
    modfile: str = "go.mod"

    @property
    def all_flags(self) -> tuple[str, ...]:
        return (*_FLAGS, *self.flags, *((f"-modfile={self.modfile}",) if self.modfile != "go.mod" else ()))


def locate_program(program: Program, cache_root: Path | None = None) -> Path:
    """Its executable; builds it if the cache lacks it (1 to 3 minutes on 2 cores). DevclusterError if that fails."""
    root = cache_root or default_cache_root()
    folder = root / f"{program.name}-{_key(program)}"
    executable = folder / program.name
    install_once(folder, MIN_FREE_MIB, lambda: os.access(executable, os.X_OK), partial(_install, program))
    return executable


def _key(program: Program) -> str:
    """Names one exact build: the pinned modules, the platform, the flags, our sources and the data."""
    modfile = program.module / program.modfile
    return content_key(
        modfile.read_bytes(),
        modfile.with_suffix(".sum").read_bytes(),
        "\0".join((*platform_name(), *program.all_flags)).encode(),
        *(source.read_bytes() for source in sorted(program.module.glob("*.go"))),
        *(part.encode() for part in program.data or ()),
    )


def _install(program: Program, folder: Path) -> None:
    compile_packages(program.module, [program.package], program.all_flags, folder, folder.parent)
    if program.data:
        source, data = program.data
        for file in (module_folder(program.module, source, folder.parent) / data).glob("*.yaml"):
            shutil.copyfile(file, folder / file.name)
