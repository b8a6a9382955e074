"""Control planes of older minor versions of Kubernetes, for tests.

Each version has a folder. Its go.mod pins the modules: the three commands as tools, k8s.io/kubernetes, and a
replacement for each module of the folder `staging` of Kubernetes. `go mod tidy` adds the rest. etcd, kubectl and kwok
come from the newest control plane.
"""

import re
from functools import partial
from pathlib import Path

from dev.cluster.assets import (
    BINARIES,
    Sources,
    build_flags,
    content_key,
    default_cache_root,
    install_once,
    locate,
    missing_binaries,
    platform_name,
)
from dev.cluster.build import PACKAGES, compile_packages
from dev.cluster.download import Releases, fetch, release_assets
from dev.cluster.errors import UsageError

OWN_BINARIES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
MINORS = {file.parent.name: file.parent for file in sorted(Path(__file__).parent.glob("*/go.mod"))}
"""The folder of each version, such as 1.33."""
MIN_FREE_MIB = 400


def locate_minor(minor: str, sources: Sources) -> Path:
    """The folder with all binaries of a minor version, which are downloaded or built (7 minutes on 2 cores) if needed.

    Raises `DevclusterError` if that fails, and `UsageError` for a version that is not in `MINORS`.
    """
    if minor not in MINORS:
        raise UsageError(f"there are control planes of Kubernetes {', '.join(MINORS)} and the newest, none of {minor}.")
    newest = locate(sources)
    root = sources.cache_root or default_cache_root()
    folder = root / f"kubernetes-{minor}-{_key(MINORS[minor])}"
    install = partial(_install, MINORS[minor], sources, newest)
    install_once(folder, MIN_FREE_MIB, lambda: not missing_binaries(folder), install)
    return folder


def pinned_version(module: Path) -> str:
    """The patch version that a go.mod pins, such as 1.33.13."""
    versions: list[str] = re.findall(r"k8s\.io/kubernetes v(\S+)", (module / "go.mod").read_text())
    return versions[0]


def _key(module: Path) -> str:
    """The key of one set of binaries, from pinned modules, platform and build flags."""
    flags = repr((platform_name(), build_flags(pinned_version(module)))).encode()
    return content_key((module / "go.mod").read_bytes(), (module / "go.sum").read_bytes(), flags)


def _install(module: Path, sources: Sources, newest: Path, folder: Path) -> None:
    version = pinned_version(module)
    releases = Releases(kubernetes=version, etcd="", bases={"kubernetes": sources.releases.bases.get("kubernetes", "")})
    fetched = fetch([each for each in release_assets(releases, platform_name()) if each.name in OWN_BINARIES], folder)
    if missing := [PACKAGES[name] for name in OWN_BINARIES if name not in fetched]:
        compile_packages(module, missing, build_flags(version), folder, folder.parent)
    for name in set(BINARIES) - set(OWN_BINARIES):
        (folder / name).hardlink_to(newest / name)
