"""Where the control plane's binaries come from; the first source that has them wins.

Order: a folder given (`--assets`, KUBEBUILDER_ASSETS), the project's cache, the official releases, a build from the
pinned Go modules. Only complete, verified sets enter the cache, in one rename. It must not start the binaries.
"""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import DevclusterError

BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
MODULE = Path(__file__).parent
KUBERNETES = "1.37.1"
_VERSION_VARIABLES = {"gitVersion": f"v{KUBERNETES}", "gitMajor": "1", "gitMinor": "37", "gitTreeState": "clean"}
LDFLAGS = " ".join(
    ["-s", "-w", *(f"-X k8s.io/component-base/version.{k}={v}" for k, v in _VERSION_VARIABLES.items())]
)
BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", LDFLAGS)


@dataclass(frozen=True)
class Sources:
    """Where to look. `assets`: a folder that already has the binaries; nothing else is tried then."""

    assets: Path | None = None
    cache_root: Path | None = None


def locate(sources: Sources) -> Path:
    """The folder that holds all of `BINARIES`; DevclusterError when no source has them."""
    given = sources.assets or (
        Path(os.environ["KUBEBUILDER_ASSETS"]) if os.environ.get("KUBEBUILDER_ASSETS") else None
    )
    if given:
        return _complete(given)
    return _complete((sources.cache_root or default_cache_root()) / cache_key())


def cache_key() -> str:
    """Names one exact set of binaries: the pinned modules, the platform and the build flags."""
    digest = hashlib.sha256()
    for part in (
        (MODULE / "go.mod").read_bytes(),
        (MODULE / "go.sum").read_bytes(),
        "-".join(platform_name()).encode(),
        "\0".join(BUILD_FLAGS).encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def default_cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "jobset-devcluster"


def platform_name() -> tuple[str, str]:
    """(operating system, architecture) in Go's words, such as ("linux", "amd64")."""
    machine = platform.machine().lower()
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return platform.system().lower(), arch


def _complete(folder: Path) -> Path:
    missing = [name for name in BINARIES if not os.access(folder / name, os.X_OK)]
    if missing:
        raise DevclusterError(f"{folder} lacks {', '.join(missing)}")
    return folder
