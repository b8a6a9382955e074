"""Reads an OCI image layout back, and checks every type, size and digest on the way."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any


def blob(layout: Path, descriptor: dict[str, Any], kind: str) -> bytes:
    """The content that a descriptor names; its type, size and digest are checked."""
    assert descriptor["mediaType"] == f"application/vnd.oci.image.{kind}"
    algorithm, _, digest = descriptor["digest"].partition(":")
    data = (layout / "blobs" / algorithm / digest).read_bytes()
    assert len(data) == descriptor["size"]
    assert hashlib.new(algorithm, data).hexdigest() == digest
    return data


def read(layout: Path) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    """Manifest, content of the only layer, and configuration."""
    assert json.loads((layout / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((layout / "index.json").read_bytes())
    assert (index["schemaVersion"], index["mediaType"]) == (2, "application/vnd.oci.image.index.v1+json")
    (entry,) = index["manifests"]
    manifest = json.loads(blob(layout, entry, "manifest.v1+json"))
    assert (manifest["schemaVersion"], manifest["mediaType"]) == (2, entry["mediaType"])
    config = json.loads(blob(layout, manifest["config"], "config.v1+json"))
    assert {key: config[key] for key in ("os", "architecture")} == entry["platform"]
    (layer,) = manifest["layers"]
    content = gzip.decompress(blob(layout, layer, "layer.v1.tar+gzip"))
    assert config["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]}
    assert len(list((layout / "blobs" / "sha256").iterdir())) == 3, "and nothing else"
    return manifest, content, config


def unpack(content: bytes, folder: Path) -> Path:
    """The files of a layer in `folder`, with their rights, also those for everybody."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="fully_trusted")  # noqa: S202 - written by us
    return folder


def same(one: Path, other: Path) -> None:
    """Names, kinds, rights and contents."""

    def seen(root: Path) -> dict[str, tuple[int, Any]]:
        return {
            str(path.relative_to(root)): (
                path.lstat().st_mode,
                path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None,
            )
            for path in root.rglob("*")
        }

    assert seen(one) == seen(other)
