"""Helm 3 and 4, built from the Go modules that `v3/` and `v4/` pin, and kept beside the control plane's binaries.

For the tests of the chart: nothing else needs Helm.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from devcluster.assets import alone, default_cache_root, platform_name
from devcluster.build import compile_packages
from devcluster.errors import disk_errors

VERSIONS = (3, 4)
_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w")


def locate_helm(version: int, cache_root: Path | None = None) -> Path:
    """The executable of Helm 3 or 4; builds it if the cache lacks it (3 minutes each on 2 cores)."""
    module = Path(__file__).parent / f"v{version}"
    root = cache_root or default_cache_root()
    folder = root / f"helm-{_key(module)}"
    with disk_errors(root, "600 MiB"):
        root.mkdir(parents=True, exist_ok=True)
        with alone(root / f"{folder.name}.lock"):
            if not os.access(folder / "helm", os.X_OK):
                _install(module, f"helm.sh/helm/v{version}/cmd/helm", folder)
    return folder / "helm"


def _key(module: Path) -> str:
    """Names one exact build: the pinned modules, the platform and the flags."""
    digest = hashlib.sha256()
    for part in (
        (module / "go.mod").read_bytes(),
        (module / "go.sum").read_bytes(),
        "\0".join((*platform_name(), *_FLAGS)).encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def _install(module: Path, package: str, folder: Path) -> None:
    """Fill `folder` in one step: the executable is complete or it is not there."""
    scratch = folder.with_suffix(".tmp")
    for leftover in (scratch, folder):
        shutil.rmtree(leftover, ignore_errors=True)
    scratch.mkdir()
    try:
        compile_packages(module, [package], _FLAGS, scratch, folder.parent)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
