"""What the programs of examples/frameworks need: on this machine an environment, on real nodes an image.

Both are in the cache, made once for each machine. An image is made from packages of the distribution and wheels.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from dev.cluster.assets import default_cache_root, exclusive_lock
from dev.cluster.progress import step
from dev.cluster.real.image import Image, ImageLayout
from dev.cluster.real.load import CONFIG
from dev.hack import node_images
from tests.support.cluster.local_pods import environment

PACKAGES = {
    "jax": [("jax==0.10.2",)],
    "mpi": [("mpich==5.0.2", "mpi4py==4.1.2")],
    "ray": [("ray==2.60.0",)],
    "torch": [("torch==2.15.0", "numpy", "setuptools", "wheel"), ("deepspeed==0.19.8",)],
}
"""What images bring and commands install, in the order in which it is installed; DeepSpeed's build needs PyTorch."""

COMPILES = {
    "torch": (
        "from deepspeed.accelerator import get_accelerator;"
        " get_accelerator().create_op_builder('ShareMemCommBuilder').load()"
    )
}
"""Programs that compile what the first use of a package would: minutes, which are not those of the example."""

LIBRARIES = {"torch": ("g++", "ninja-build", "python3-dev")}
"""Packages of the distribution that images have for these, where it is not `libstdc++6` alone."""

ENVIRONMENTS = {"deepspeed": "torch", "jax": "jax", "mpi": "mpi", "pytorch": "torch", "ray": "ray", "tpu": "jax"}
"""Of each example the key of `PACKAGES`."""

SAYS = {
    "deepspeed": [f"process {rank} of 4: 4 processes, loss" for rank in range(4)],
    "jax": [f"process {rank} of 4: 4 devices" for rank in range(4)],
    "mpi": [f"process {rank} of 4: the ranks add up to 6" for rank in range(4)],
    "pytorch": [f"process {rank} of 4: 4 processes, loss" for rank in range(4)],
    "ray": ["4 of 4 nodes: the squares add up to 1240"],
    "tpu": [f"process {rank} of 8: 8 devices" for rank in range(8)],
}
"""What the pods of each example print at their end."""

_UV = Path(sys.executable).with_name("uv")


def locate_environment(example: str) -> Path:
    """The folder of programs of an environment of this machine's Python that has the packages."""
    name = ENVIRONMENTS[example]
    folder = _folder(name, repr((PACKAGES[name], COMPILES.get(name))))
    if not (folder / "complete").exists():
        subprocess.run([_UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)  # noqa: S603
        _install(name, folder / "bin/python")
        if name in COMPILES:
            compile_it = [folder / "bin/python", "-c", COMPILES[name]]
            subprocess.run(compile_it, env=os.environ | environment(folder / "bin"), check=True)  # noqa: S603
        (folder / "complete").touch()
    return folder / "bin"


def locate_framework_image(example: str) -> Path:
    """The layout of an image with the packages, for Debian's Python. `pip` does nothing in it: nodes have no network."""
    name = ENVIRONMENTS[example]
    made_from = (
        PACKAGES[name],
        COMPILES.get(name),
        LIBRARIES.get(name),
        node_images.digest_of_sources(["dev/hack/node_images.py"]),
    )
    folder = _folder(f"image-{name}", repr(made_from))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder.with_suffix(".lock")):
        if not folder.exists():
            scratch = folder.with_suffix(".tmp")
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            with step(f"making the image of {name}"):
                _make_image(name, scratch)
            shutil.rmtree(scratch / "root")
            scratch.rename(folder)
    return folder / "oci"


def _folder(name: str, version: str) -> Path:
    digest = hashlib.sha256(version.encode()).hexdigest()[:8]
    return default_cache_root().with_name("jobset-frameworks") / f"{name}-{digest}"


def _install(name: str, python: Path, *flags: str) -> None:
    install = [_UV, "pip", "install", "--quiet", "--no-build-isolation", "--python", python, *flags]
    for packages in PACKAGES[name]:
        subprocess.run([*install, *packages], check=True)  # noqa: S603 - pinned above


def _make_image(name: str, folder: Path) -> None:
    root = folder / "root"
    node_images.unpack_python(root, *LIBRARIES.get(name, ("libstdc++6",)))
    _install(name, root / "usr/bin/python3", "--break-system-packages")
    _remove_unused_libraries(root)
    programs = root / "usr/local/bin"
    for script in programs.iterdir():
        text = script.read_bytes()
        if script.is_file() and text.startswith(b"#!"):
            script.write_bytes(text.replace(bytes(root), b""))
    (programs / "pip").write_text("#!/bin/sh\n")
    (programs / "pip").chmod(0o755)
    node_images.compile_bytecode(root, "usr/local/lib", check=False)  # some packages have templates of files
    if name in COMPILES:
        (root / "usr/bin/c++").symlink_to("g++")  # as the installation of the package does
        mounts = "for each in dev proc; do mount --rbind /$each $0/$each; done"
        enter = ["unshare", "--mount", "sh", "-ec", f'{mounts}; exec chroot "$0" python3 -c "$1"']
        subprocess.run([*enter, root, COMPILES[name]], env={"HOME": "/root", "PATH": os.environ["PATH"]}, check=True)  # noqa: S603
    (root / "etc/ld.so.conf").write_text("/usr/local/lib\n")
    subprocess.run(["ldconfig", "-X", "-r", root], check=True)  # noqa: S603, S607
    ImageLayout(folder / "oci").write(root, CONFIG, Image("tests.support.cluster.frameworks"))


def _remove_unused_libraries(root: Path) -> None:
    """Of the gigabytes for GPUs only what PyTorch is linked with is loaded on a processor."""
    [site] = (root / "usr/local/lib").glob("python3.*/dist-packages")
    main = site / "torch/lib/libtorch_python.so"
    if not main.exists():
        return
    linked = subprocess.run(["ldd", main], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607
    needed = {Path(path).resolve() for path in re.findall(r"=> (/\S+)", linked)}
    for folder in (site / "nvidia", site / "triton"):
        for library in folder.rglob("*"):
            if library.is_file() and library.suffix != ".py" and library.resolve() not in needed:
                library.unlink()
