"""Finds the control plane's binaries in the first source that has them.

The sources are, in order: a folder that the user gives (`--assets`, KUBEBUILDER_ASSETS), the project's cache, the
official releases, and a build from the pinned Go modules. Only complete, verified sets enter the cache, in one rename.
"""

import fcntl
import hashlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dev.cluster.build import build
from dev.cluster.download import Releases, fetch, release_assets
from dev.cluster.errors import DevclusterError, disk_errors, require_space
from dev.cluster.progress import step

BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
MODULE = Path(__file__).parent
KUBERNETES = "1.37.1"
ETCD = "3.7.3"
MIN_FREE_MIB = 600


def build_flags(version: str) -> tuple[str, ...]:
    """Go's flags to build the control plane of this version of Kubernetes."""
    major, minor, _ = version.split(".")
    variables = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    settings = (f"-X k8s.io/component-base/version.{name}={value}" for name, value in variables.items())
    return ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *settings]))


BUILD_FLAGS = build_flags(KUBERNETES)


@dataclass(frozen=True)
class Sources:
    """The sources of binaries. `assets`: a folder that already has the binaries, which excludes all other sources."""

    assets: Path | None = None
    cache_root: Path | None = None
    releases: Releases = field(default_factory=lambda: Releases(kubernetes=KUBERNETES, etcd=ETCD))


def locate(sources: Sources) -> Path:
    """The folder with all `BINARIES`, which are fetched or built if needed. Raises DevclusterError if that fails."""
    folder, chosen_by_user = _binaries_folder(sources)
    missing = missing_binaries(folder)
    if chosen_by_user and missing:
        raise DevclusterError(
            f"{folder} (from --assets or KUBEBUILDER_ASSETS) lacks {', '.join(missing)}.\n"
            f"Add them, or leave the option and the variable out to have them fetched or built."
        )
    if missing:
        install_once(folder, MIN_FREE_MIB, lambda: not missing_binaries(folder), partial(_install, sources.releases))
    return folder


def has_binaries(sources: Sources) -> bool:
    """Whether `locate` would find the binaries without fetching or building them."""
    return not missing_binaries(_binaries_folder(sources)[0])


def _binaries_folder(sources: Sources) -> tuple[Path, bool]:
    """The folder for the binaries, and whether the user gave it. Nothing is installed into a folder of the user."""
    assets = sources.assets or os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return Path(assets), True
    return (sources.cache_root or default_cache_root()) / cache_key(), False


def cache_key() -> str:
    """The name of the cache folder for one set of binaries, from pinned modules, platform and build flags."""
    modules = ((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    return content_key(*modules, "-".join(platform_name()).encode(), "\0".join(BUILD_FLAGS).encode())


def content_key(*parts: bytes) -> str:
    """The name of a cache folder, from everything that its content depends on."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]


def default_cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "jobset-devcluster"


def platform_name() -> tuple[str, str]:
    """(operating system, architecture) in Go's words, such as ("linux", "amd64")."""
    machine = platform.machine().lower()
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return platform.system().lower(), arch


def missing_binaries(folder: Path) -> list[str]:
    """The names of `BINARIES` that the folder lacks."""
    return [name for name in BINARIES if not os.access(folder / name, os.X_OK)]


def _install(releases: Releases, folder: Path) -> None:
    fetched = fetch(release_assets(releases, platform_name()), folder)
    if missing := set(BINARIES) - fetched:
        build(missing, BUILD_FLAGS, folder, folder.parent)


def install_once(
    folder: Path, needed_mib: int, is_complete: Callable[[], bool], install: Callable[[Path], None]
) -> None:
    """Unless the folder is complete, let `install` fill a new folder, and rename it. One process at a time does so."""
    root, scratch = folder.parent, folder.with_suffix(".tmp")
    with disk_errors(root, f"{needed_mib} MiB"):
        root.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(root / f"{folder.name}.lock"):
            if is_complete():
                return
            require_space(folder, needed_mib)
            # Remove leftovers of a killed run, or an incomplete set.
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
            scratch.mkdir()
            try:
                install(scratch)
                scratch.rename(folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """A block that one process at a time enters. The others wait, and then find the result of the first process."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step("waiting for another process that prepares the binaries"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
