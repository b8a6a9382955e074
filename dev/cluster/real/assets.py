"""Provides the programs and images of real nodes in one folder of the cache: `bin`, `debian`, `images`.

Programs come from official releases, or from pinned Go modules if the releases cannot be reached. runc, CNI plugins and
nftables come from packages of the distribution (Debian or Ubuntu).
"""

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dev.cluster import assets, build
from dev.cluster.assets import BUILD_FLAGS, MODULE, Sources, platform_name
from dev.cluster.download import Asset, fetch
from dev.cluster.real.config import PAUSE
from dev.cluster.real.debian import unpack_packages
from dev.cluster.real.image import Image, ImageLayout, Object, write_archive

CONTAINERD = "2.4.2"
COREDNS = "1.15.0"
DNS_IMAGE = f"jobset.local/coredns:{COREDNS}"
SHELL_IMAGE = "jobset.local/busybox:1"
"""An image with a shell and small tools, for tests and experiments. Each node has it, `PAUSE` and `DNS_IMAGE`."""
PACKAGES = ("busybox-static", "catatonit", "containernetworking-plugins", "mount", "nftables", "runc")
"""catatonit is the program of each pod's sandbox. The kubelet calls mount, and kube-proxy calls nft."""
MIN_FREE_MIB = 1500
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class _Module:
    """A go.mod (`folder`) with the Go packages of programs, by name of the program. `ldflags` are for the linker."""

    folder: Path
    packages: dict[str, str]
    ldflags: str

    @property
    def flags(self) -> tuple[str, ...]:
        return ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", self.ldflags)


_V2 = "github.com/containerd/containerd/v2"
_MODULES = (
    _Module(MODULE, {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")}, BUILD_FLAGS[-1]),
    _Module(
        _FOLDER / "containerd",
        {name: f"{_V2}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
        f"-s -w -X {_V2}/version.Version=v{CONTAINERD}",
    ),
    _Module(_FOLDER / "coredns", {"coredns": "coredns"}, "-s -w"),
)


def locate_node_assets(sources: Sources) -> Path:
    """The folder of the assets, which are fetched or built first if missing (4 minutes on 2 cores).

    Raises DevclusterError if that fails.
    """
    folder = (sources.cache_root or assets.default_cache_root()) / f"nodes-{_key()}"
    assets.install_once(folder, MIN_FREE_MIB, folder.is_dir, partial(_install, sources))
    return folder


def release_assets(sources: Sources) -> list[Asset]:
    """The files of the official releases for this platform."""
    system, arch = platform_name()
    bases = sources.releases.bases
    release_files = []
    if base := bases.get("kubernetes"):
        folder = f"v{sources.releases.kubernetes}/bin/{system}/{arch}"
        release_files += [
            Asset(name, base, f"{folder}/{name}", f"{folder}/{name}.sha256") for name in _MODULES[0].packages
        ]
    if base := bases.get("containerd"):
        path = f"v{CONTAINERD}/containerd-static-{CONTAINERD}-{system}-{arch}.tar.gz"
        members = tuple(f"bin/{name}" for name in _MODULES[1].packages)
        release_files.append(Asset("containerd", base, path, f"{path}.sha256sum", members))
    if base := bases.get("coredns"):
        path = f"v{COREDNS}/coredns_{COREDNS}_{system}_{arch}.tgz"
        release_files.append(Asset("coredns", base, path, f"{path}.sha256", ("coredns",)))
    return release_files


def _key() -> str:
    """The key of one set, from the pinned modules, our sources, the names of packages, the platform and the flags."""
    inputs = [repr((platform_name(), PACKAGES)).encode()]
    for module in _MODULES:
        # The folder of the module is not part of the key, since the programs are the same in every checkout.
        inputs.append(repr((module.packages, module.flags)).encode())
        inputs += [
            file.read_bytes() for file in sorted(module.folder.glob("*")) if file.suffix in {".mod", ".sum", ".go"}
        ]
    return assets.content_key(*inputs)


def _install(sources: Sources, folder: Path) -> None:
    programs, debian_programs = folder / "bin", folder / "debian/usr/bin"
    programs.mkdir()
    (folder / "images").mkdir()
    fetched = fetch(release_assets(sources), programs)
    for module in _MODULES:
        if missing := [module.packages[name] for name in module.packages if name not in fetched]:
            build.compile_packages(module.folder, missing, module.flags, programs, folder.parent)
    unpack_packages(PACKAGES, folder / "debian")
    _write_image(folder, "pause", debian_programs / "catatonit", PAUSE, {"Entrypoint": ["/bin/pause", "-P"]})
    _write_image(folder, "coredns", programs / "coredns", DNS_IMAGE, {"Entrypoint": ["/bin/coredns"]})
    (programs / "coredns").unlink()
    commands = subprocess.run([debian_programs / "busybox", "--list"], capture_output=True, text=True, check=True)  # noqa: S603
    shell_config = {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]}
    _write_image(folder, "busybox", debian_programs / "busybox", SHELL_IMAGE, shell_config, commands.stdout.split())


def _write_image(folder: Path, name: str, program: Path, image: str, config: Object, links: Iterable[str] = ()) -> None:
    """Write an image that has only one program in /bin, and links to it."""
    root = folder / name
    (root / "bin").mkdir(parents=True)
    shutil.copy(program, root / "bin" / name)
    for link in links:
        if link != name:
            (root / "bin" / link).symlink_to(name)
    layout = folder / "layout"
    ImageLayout(layout).write(root, config, Image("jobset cluster"))
    with (folder / "images" / f"{name}.tar").open("wb") as archive:
        write_archive(layout, image, archive)
    for scratch in (root, layout):
        shutil.rmtree(scratch)
