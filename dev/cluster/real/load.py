"""Loads images into real nodes without a registry, from a folder, an image layout, or an archive of a layout."""

import contextlib
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dev.cluster.components import Plan
from dev.cluster.errors import DevclusterError, UsageError
from dev.cluster.progress import step
from dev.cluster.real.enter import CTR, run_in_node
from dev.cluster.real.image import Image, ImageLayout, write_archive
from dev.cluster.real.layout import real_nodes
from kube.model.images import fault as image_reference_fault

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONFIG = {"Env": [PATH], "WorkingDir": "/"}
"""The configuration of an image that is made from a folder."""


def load_image(plan: Plan, source: Path, name: str) -> list[str]:
    """Load an image into each real node under the name that pods use. Returns the names of the nodes."""
    nodes = real_nodes(plan.layout, plan.spec.real_nodes)
    if not nodes:
        raise DevclusterError(
            f"cluster {plan.spec.name!r} has no real node, and fake ones need no image: start it with --real-nodes."
        )
    with layout_of(source, name) as layout, tempfile.TemporaryFile() as archive:
        write_archive(layout, name, archive)
        for node in nodes:
            archive.seek(0)
            with step(f"loading {name} into {node.name}"):
                run_in_node(node, *CTR, "images", "import", "--digests=false", "-", stdin=archive)
    return [node.name for node in nodes]


@contextlib.contextmanager
def layout_of(source: Path, name: str) -> Iterator[Path]:
    """The image layout for `source`, which is a layout, an archive of a layout, or a folder with files."""
    if reason := image_reference_fault(name) or ("it has a digest" if "@" in name else ""):
        raise UsageError(f"{name!r} is not usable as the name of an image: {reason}. Use one such as trainer:v1.")
    if (source / "oci-layout").is_file():
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="jobset-image-") as scratch:
        folder = Path(scratch, "oci")
        if source.is_dir():
            ImageLayout(folder).write(source, CONFIG, Image("jobset cluster image"))
        else:
            _unpack(source, folder)
        yield folder


def _unpack(source: Path, folder: Path) -> None:
    try:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise DevclusterError(f"{source} is neither a folder nor an archive of an image: {error}") from error
    if not (folder / "oci-layout").is_file():
        raise DevclusterError(f"{source} is not an OCI archive: it has no file oci-layout. Save it in that format.")
