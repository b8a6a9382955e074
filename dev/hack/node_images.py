"""`python -m dev.hack.node_images`: make the images for tests on real nodes, and print their names and layouts.

The layouts are kept in the cache. A layout is made again when its sources have changed. Needs Debian and root.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dev.cluster.assets import default_cache_root, exclusive_lock
from dev.cluster.errors import DevclusterError
from dev.cluster.progress import step
from dev.cluster.real.debian import unpack_packages
from dev.cluster.real.image import Image, ImageLayout
from dev.cluster.real.load import CONFIG
from manifests.naming import IMAGE, IMAGE_TAG

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
PYTHON = "python:3.13-slim"
"""The name of an image with Python in the examples. The image that is made here has the Python of Debian."""
AGENT = f"jobset-in-place-restart-agent:{IMAGE_TAG}"
PACKAGES = ("python3", "python-is-python3", "coreutils", "dash")
USERS = "root:x:0:0::/root:/bin/sh\nnonroot:x:65532:65532::/tmp:/bin/sh\n"
BUILDERS = (
    "docker",
    "dev/cluster/real/debian.py",
    "dev/cluster/real/image.py",
    "dev/hack/image_layout.py",
    "dev/hack/node_images.py",
)
KEPT_VERSIONS = 3
"""Number of versions of an image that the cache keeps, because checkouts with other sources use the same cache."""


def locate_images(cache_root: Path | None = None) -> dict[str, Path]:
    """Return the layout of each image, by the name that pods use. Makes missing images, in a minute on 2 cores."""
    root = (cache_root or default_cache_root()) / "images"
    root.mkdir(parents=True, exist_ok=True)
    # The sources of the manager's image are its build context.
    context = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    manager_sources = [line[1:] for line in context if line.startswith("!")]
    with exclusive_lock(root / "lock"):
        bases = _locate_version(root, "bases", (*BUILDERS, "agent"), _make_bases)
        manager = _locate_version(root, "manager", (*BUILDERS, *manager_sources), _make_manager)
    return {PYTHON: bases / "python", AGENT: bases / "agent", IMAGE: manager / "oci"}


def _locate_version(root: Path, name: str, sources: Sequence[str], make: Callable[[Path], None]) -> Path:
    """Return the folder for the current sources. Makes it with `make` if it is missing, and removes old versions."""
    folder = root / f"{name}-{digest_of_sources(sources)}"
    if not folder.exists():
        scratch = root / f"{name}.tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        with step(f"making the images of {name}"):
            make(scratch)
        shutil.rmtree(scratch / "root")
        scratch.rename(folder)
    folder.touch()
    folders = sorted(root.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old_folder in folders[KEPT_VERSIONS:]:
        shutil.rmtree(old_folder)
    return folder


def digest_of_sources(sources: Sequence[str]) -> str:
    """Return a digest of the source files and of this Python's version."""
    hasher = hashlib.sha256(sys.version.encode())
    for path in sorted({path for source in sources for path in _files(ROOT / source)}):
        hasher.update(f"{path.relative_to(ROOT)}\n".encode())
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:16]


def _files(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
    for path in source.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _make_bases(folder: Path) -> None:
    """Make two layouts in `folder`: Python, and Python with the agent as docker/Dockerfile adds it."""
    root = folder / "root"
    unpack_python(root)
    ImageLayout(folder / "python").write(root, CONFIG, Image("dev.hack.node_images"))
    _run(DOCKER / "build-steps.sh", "agent", root)
    _run(sys.executable, "-m", "dev.hack.image_layout", root, folder / "agent", "--target", "agent")


def unpack_python(root: Path, *packages: str) -> None:
    """Fill `root` with the files of an image, which has Python, a shell and further packages of the distribution."""
    unpack_packages((*PACKAGES, *packages), root)
    for name, mode in {"tmp": 0o1777, "root": 0o700, "dev": 0o755, "proc": 0o755, "sys": 0o755}.items():
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(mode)
    (root / "etc" / "passwd").write_text(USERS)
    (root / "etc" / "nsswitch.conf").write_text("hosts: files dns\n")
    compile_bytecode(root, "usr/lib")


def compile_bytecode(root: Path, folder: str, *, check: bool = True) -> None:
    """Compile bytecode that Python uses without a comparison with the source files and their times."""
    compile_command = ("python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    [library] = (root / folder).glob("python3.*")
    _run("chroot", root, *compile_command, f"/{folder}/{library.name}", check=check)


def _make_manager(folder: Path) -> None:
    _run(DOCKER / "rootfs.sh", "image", folder / "root", folder)


def _run(*command: str | Path, check: bool = True) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # uv of the environment
    result = subprocess.run(  # noqa: S603 - our own scripts
        command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    if check and result.returncode:
        raise DevclusterError(f"{' '.join(map(str, command))} failed:\n{result.stderr.strip()[-1500:]}")


def main() -> int:
    try:
        for name, layout in locate_images().items():
            sys.stdout.write(f"{name} {layout}\n")
    except DevclusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
