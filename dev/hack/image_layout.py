"""`python -m dev.hack.image_layout ROOT LAYOUT`: write a file system as an image in OCI's layout 1.1.

The image has one layer, and the configuration that the last stage of docker/Dockerfile describes. The same files give
the same bytes: times, owners and order do not depend on who builds, nor where or when.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import shlex
import sys
import tarfile
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
MANIFEST, CONFIG, LAYER = (
    f"application/vnd.oci.image.{kind}" for kind in ("manifest.v1+json", "config.v1+json", "layer.v1.tar+gzip")
)
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""The names of Go for those of `platform.machine()`."""

Object = dict[str, Any]


def stage(dockerfile: str, arguments: dict[str, str]) -> Object:
    """The last stage as the `config` of an image. `arguments` are those of the build: `VERSION`, for example."""
    parser = DockerfileParser(fileobj=io.BytesIO(dockerfile.encode()), build_args=arguments)
    said: dict[str, str] = {}
    for line in parser.structure:
        said = {} if line["instruction"] == "FROM" else said | {line["instruction"]: line["value"]}
    return {
        "User": said["USER"],
        "ExposedPorts": {f"{port}/tcp": {} for port in shlex.split(said["EXPOSE"])},
        "Entrypoint": json.loads(said["ENTRYPOINT"]),
        "WorkingDir": "/",
        "Labels": dict(parser.labels),
    }


def write_tar(root: Path, file: IO[bytes], epoch: int) -> None:
    """The files of `root` in the order of their paths, all owned by root, of the time `epoch` (seconds since 1970)."""

    def same(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = epoch
        return member

    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, path.relative_to(root).as_posix(), recursive=False, filter=same)


class _Hashed(io.RawIOBase):
    """Passes on what is written, and knows its digest."""

    def __init__(self, to: IO[bytes]) -> None:
        self._to = to
        self._sum = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._sum.update(data)
        return self._to.write(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._sum.hexdigest()}"


class Layout:
    """A folder that becomes an image layout. It must be empty or absent."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and any(folder.iterdir()):
            raise SystemExit(f"{folder} is not empty; remove it or name another folder")
        self._folder = folder
        self._blobs = folder / "blobs" / "sha256"
        self._blobs.mkdir(parents=True)

    def write(self, root: Path, config: Object, architecture: str, epoch: int) -> str:
        """Everything. Returns the digest of the manifest."""
        layer, content = self._layer(root, epoch)
        created = _time(epoch)
        image = {
            "created": created,
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [content]},
            "history": [{"created": created, "created_by": "docker/rootfs.sh image"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._json(image, CONFIG),
            "layers": [layer],
            "annotations": config["Labels"],
        }
        entry = self._json(manifest, MANIFEST) | {
            "platform": {"architecture": architecture, "os": "linux"},
            "annotations": {
                "org.opencontainers.image.ref.name": config["Labels"]["org.opencontainers.image.version"],
            },
        }
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
        (self._folder / "index.json").write_bytes(_encode_json(index))
        (self._folder / "oci-layout").write_bytes(_encode_json({"imageLayoutVersion": "1.0.0"}))
        return str(entry["digest"])

    def _layer(self, root: Path, epoch: int) -> tuple[Object, str]:
        """Descriptor of the layer, and the digest of its content."""
        with tempfile.NamedTemporaryFile(dir=self._blobs, delete=False) as file:
            packed = _Hashed(cast("IO[bytes]", file))
            with gzip.GzipFile("", "wb", 6, cast("IO[bytes]", packed), mtime=0) as compressed:
                content = _Hashed(cast("IO[bytes]", compressed))
                write_tar(root, cast("IO[bytes]", content), epoch)
        return self._blob(Path(file.name), packed.digest, LAYER), content.digest

    def _json(self, value: Object, kind: str) -> Object:
        data = _encode_json(value)
        path = self._blobs / "new"
        path.write_bytes(data)
        return self._blob(path, f"sha256:{hashlib.sha256(data).hexdigest()}", kind)

    def _blob(self, path: Path, digest: str, kind: str) -> Object:
        kept = path.rename(self._blobs / digest.removeprefix("sha256:"))
        kept.chmod(0o644)
        return {"mediaType": kind, "digest": digest, "size": kept.stat().st_size}


def _encode_json(value: Object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def _time(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main(argv: list[str] | None = None) -> int:
    """Entry point; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dev.hack.image_layout", description="Write an OCI image layout.")
    parser.add_argument("root", type=Path, help="folder with the files of the image")
    parser.add_argument("layout", type=Path, help="folder to write; empty or absent")
    options = parser.parse_args(argv)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    arguments = {
        "VERSION": f"v{version}",
        "REVISION": os.environ.get("REVISION", ""),
        "CREATED": _time(epoch),
        "SOURCE": os.environ.get("SOURCE", ""),
    }
    config = stage(DOCKERFILE.read_text(encoding="utf-8"), arguments)
    digest = Layout(options.layout).write(options.root, config, ARCHITECTURES[platform.machine()], epoch)
    sys.stdout.write(f"{options.layout}: image {digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
