"""Fetches official release binaries, and checks them against their published checksums.

If a file is missing (404) or its server is unreachable, the caller tries its next source. If a file is cut short, it is
first fetched once more. A wrong checksum is an error.
"""

import hashlib
import http.client
import os
import re
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from dev.cluster.errors import MIB, DevclusterError
from dev.cluster.progress import Report, say, step

TIMEOUT_SECONDS = 5
CHUNK_BYTES = 256 * 1024
MAX_CHECKSUM_BYTES = MIB

# kwok publishes no checksums with its releases, so it is always built from the module that go.sum vouches for.
KUBERNETES_BINARIES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
DEFAULT_BASES = {
    "kubernetes": "https://dl.k8s.io/release",
    "etcd": "https://github.com/etcd-io/etcd/releases/download",
    "containerd": "https://github.com/containerd/containerd/releases/download",
    "coredns": "https://github.com/coredns/coredns/releases/download",
}


class UnavailableError(Exception):
    """A file is not available now. Another source may have it."""


class UnreachableError(UnavailableError):
    """The server cannot be reached, so it gets no further requests."""


@dataclass(frozen=True)
class Releases:
    """The versions of the releases, and the base URL of each project. An empty base turns downloads of a project off.

    Variables such as JOBSET_DEVCLUSTER_KUBERNETES_URL set the bases. A mirror has the same paths below its base as the
    original server.
    """

    kubernetes: str
    etcd: str
    bases: Mapping[str, str] = field(
        default_factory=lambda: {
            project: os.environ.get(f"JOBSET_DEVCLUSTER_{project.upper()}_URL", url).rstrip("/")
            for project, url in DEFAULT_BASES.items()
        }
    )


@dataclass(frozen=True)
class Asset:
    """A binary, or an archive with `members`, of a release. `sums_path`: the path of the document with its SHA-256."""

    name: str
    base: str
    path: str
    sums_path: str
    members: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"{self.base}/{self.path}"

    @property
    def file(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def binaries(self) -> list[str]:
        return [member.rsplit("/", 1)[-1] for member in self.members] or [self.name]


def release_assets(releases: Releases, platform: tuple[str, str]) -> list[Asset]:
    """The files of the releases for `platform` (in Go's terms)."""
    system, arch = platform
    assets = []
    if base := releases.bases.get("kubernetes"):
        folder = f"v{releases.kubernetes}/bin/{system}/{arch}"
        assets += [Asset(name, base, f"{folder}/{name}", f"{folder}/{name}.sha256") for name in KUBERNETES_BINARIES]
    if base := releases.bases.get("etcd"):
        version, archive_stem = f"v{releases.etcd}", f"etcd-v{releases.etcd}-{system}-{arch}"
        archive = f"{version}/{archive_stem}.{'tar.gz' if system == 'linux' else 'zip'}"
        assets.append(Asset("etcd", base, archive, f"{version}/SHA256SUMS", (f"{archive_stem}/etcd",)))
    return assets


def fetch(assets: Iterable[Asset], folder: Path) -> set[str]:
    """Download the available assets into `folder`. Returns the names of the downloaded binaries.

    Raises DevclusterError for a file with a wrong checksum.
    """
    binaries: set[str] = set()
    unreachable_bases: set[str] = set()
    for asset in assets:
        if asset.base in unreachable_bases:
            continue
        try:
            _fetch_asset(asset, folder)
            binaries.update(asset.binaries)
        except UnavailableError as error:
            say(f"not downloaded: {error}")
            if isinstance(error, UnreachableError):
                unreachable_bases.add(asset.base)
    return binaries


def _fetch_asset(asset: Asset, folder: Path) -> None:
    sums_url = f"{asset.base}/{asset.sums_path}"
    with _open(sums_url) as answer:
        expected_digest = _published_digest(
            answer.read(MAX_CHECKSUM_BYTES).decode(errors="replace"), asset.file, sums_url
        )
    file = folder / (asset.file if asset.members else asset.name)
    with step(f"downloading {asset.file}") as report:
        try:
            actual_digest = _receive(asset.url, file, report)
        except ShortAnswerError as short_answer:
            say(f"{short_answer}; trying once more")
            try:
                actual_digest = _receive(asset.url, file, report)
            except ShortAnswerError as second_short_answer:
                raise UnavailableError(str(second_short_answer)) from second_short_answer
    if actual_digest != expected_digest:
        file.unlink()
        raise DevclusterError(
            f"wrong checksum: {asset.url}\n  expected sha256 {expected_digest} (from {sums_url})\n"
            f"  got      sha256 {actual_digest}\n"
            f"The file was changed on its way or at its source, and is not used. Find out which; to go on without "
            f"downloads set {' '.join(f'JOBSET_DEVCLUSTER_{name.upper()}_URL=' for name in DEFAULT_BASES)} (all empty)."
        )
    for member, binary in zip(asset.members, asset.binaries, strict=False):
        _extract(file, member, folder / binary)
    if asset.members:
        file.unlink()
    for binary in asset.binaries:
        (folder / binary).chmod(0o755)


class ShortAnswerError(Exception):
    """The server has sent fewer bytes than it announced."""


def _receive(url: str, path: Path, report: Report) -> str:
    """Write the answer to `path` and return its SHA-256 in hex."""
    digest, received_bytes = hashlib.sha256(), 0
    with _open(url) as answer, path.open("wb") as file:
        announced_bytes = int(answer.headers.get("Content-Length", -1))
        try:
            while chunk := answer.read(CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
                received_bytes += len(chunk)
                report(f"{received_bytes // MIB} of {max(announced_bytes, received_bytes) // MIB} MiB")
        except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
            raise ShortAnswerError(f"{url} broke off after {received_bytes} bytes ({error})") from error
    if announced_bytes >= 0 and received_bytes != announced_bytes:
        raise ShortAnswerError(f"{url} ended after {received_bytes} of {announced_bytes} bytes")
    return digest.hexdigest()


def _open(url: str) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)  # noqa: S310 - the user may name a mirror by any scheme
    except urllib.error.HTTPError as error:
        with error:
            raise UnavailableError(f"{url} answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise UnreachableError(f"{url} is not reachable ({getattr(error, 'reason', error)})") from error
    return answer


def _published_digest(document: str, file: str, url: str) -> str:
    """The SHA-256 of `file` in a checksum document, which is a single digest, or lines of digest and file name."""
    for line in document.splitlines():
        digest, *names = line.split() or [""]
        if re.fullmatch("[0-9a-f]{64}", digest) and (not names or names[0].lstrip("*") == file):
            return digest
    raise UnavailableError(f"{url} has no SHA-256 of {file}")


def _extract(archive: Path, member: str, target: Path) -> None:
    """Extract one file from a .tar.gz or .zip, whose checksum was verified."""
    try:
        with target.open("wb") as out:
            if archive.suffix == ".zip":
                with zipfile.ZipFile(archive) as zip_archive, zip_archive.open(member) as source:
                    shutil.copyfileobj(source, out)
            else:
                with tarfile.open(archive) as tar_archive, _regular_file(tar_archive, member) as source:
                    shutil.copyfileobj(source, out)
    except (KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise DevclusterError(f"{archive.name} has the right checksum but no {member} in it: {error}") from error


def _regular_file(archive: tarfile.TarFile, member: str) -> IO[bytes]:
    file = archive.extractfile(member)
    if file is None:
        raise KeyError(f"{member} is not a regular file")
    return file
