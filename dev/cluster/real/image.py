"""Writes folders as images in the OCI image layout 1.1, with one layer.

The same files always give the same bytes, whoever builds the image, and wherever and whenever.
"""

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from dev.cluster.assets import platform_name
from dev.cluster.errors import DevclusterError
from kube.model.images import stored_name

MANIFEST, CONFIG, LAYER = (
    f"application/vnd.oci.image.{kind}" for kind in ("manifest.v1+json", "config.v1+json", "layer.v1.tar+gzip")
)
IMAGE_NAME = "io.containerd.image.name"
"""The annotation of an index with the name under which containerd imports the image."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Image:
    """Metadata of an image. `epoch` is the time of its files, in seconds since 1970. `architecture` is Go's name."""

    builder: str
    annotations: dict[str, str] = field(default_factory=dict)
    epoch: int = 0
    architecture: str = field(default_factory=lambda: platform_name()[1])


def write_tar(root: Path, file: IO[bytes], epoch: int) -> None:
    """Write the files of `root` in the order of paths, owned by root, with the time `epoch` (seconds since 1970)."""

    def normalize_member(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = epoch
        return member

    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, path.relative_to(root).as_posix(), recursive=False, filter=normalize_member)


class _HashingWriter(io.RawIOBase):
    """Writes data to a file, and computes their digest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._file.write(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


class ImageLayout:
    """A folder that becomes an image layout. It must be empty or absent."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and any(folder.iterdir()):
            raise SystemExit(f"{folder} is not empty; remove it or name another folder")
        self._folder = folder
        self._blobs = folder / "blobs" / "sha256"
        self._blobs.mkdir(parents=True)

    def write(self, root: Path, config: Object, image: Image) -> str:
        """Write all files of the layout. `config` is for containers of the image. Returns the manifest's digest."""
        layer, content_digest = self._write_layer(root, image.epoch)
        created = time_text(image.epoch)
        description = {
            "created": created,
            "architecture": image.architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [content_digest]},
            "history": [{"created": created, "created_by": image.builder}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._write_json(description, CONFIG),
            "layers": [layer],
            "annotations": config.get("Labels", {}),
        }
        entry = self._write_json(manifest, MANIFEST) | {
            "platform": {"architecture": image.architecture, "os": "linux"},
            "annotations": image.annotations,
        }
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
        (self._folder / "index.json").write_bytes(_encode_json(index))
        (self._folder / "oci-layout").write_bytes(_encode_json({"imageLayoutVersion": "1.0.0"}))
        return str(entry["digest"])

    def _write_layer(self, root: Path, epoch: int) -> tuple[Object, str]:
        """Write the layer. Returns its descriptor, and the digest of its content."""
        with tempfile.NamedTemporaryFile(dir=self._blobs, delete=False) as file:
            layer_writer = _HashingWriter(cast("IO[bytes]", file))
            with gzip.GzipFile("", "wb", 6, cast("IO[bytes]", layer_writer), mtime=0) as compressed:
                content_writer = _HashingWriter(cast("IO[bytes]", compressed))
                write_tar(root, cast("IO[bytes]", content_writer), epoch)
        return self._store_blob(Path(file.name), layer_writer.digest, LAYER), content_writer.digest

    def _write_json(self, value: Object, media_type: str) -> Object:
        data = _encode_json(value)
        path = self._blobs / "new"
        path.write_bytes(data)
        return self._store_blob(path, f"sha256:{hashlib.sha256(data).hexdigest()}", media_type)

    def _store_blob(self, path: Path, digest: str, media_type: str) -> Object:
        blob = path.rename(self._blobs / digest.removeprefix("sha256:"))
        blob.chmod(0o644)
        return {"mediaType": media_type, "digest": digest, "size": blob.stat().st_size}


def _encode_json(value: Object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def time_text(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_archive(layout: Path, name: str, file: IO[bytes]) -> None:
    """Write the image of a layout as an archive. `ctr images import` gives it the name `name`, which pods use."""
    index = json.loads((layout / "index.json").read_bytes())
    images = index.get("manifests", [])
    if len(images) != 1:
        raise DevclusterError(f"{layout} holds {len(images)} images: load each from a layout of its own.")
    images[0]["annotations"] = {IMAGE_NAME: stored_name(name)}
    data = _encode_json(index)
    with tarfile.open(fileobj=file, mode="w|") as archive:
        member = tarfile.TarInfo("index.json")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
        for part in ("oci-layout", "blobs"):
            archive.add(layout / part, part)
