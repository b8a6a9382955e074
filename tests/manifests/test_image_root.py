"""The image as `docker/rootfs.sh image` makes it: it runs alone, and the SBOMs name everything that is in it."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.image_layouts import read, same, unpack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
"""Each image takes half a minute to build on 2 cores."""

ROOT = Path(__file__).parents[2]
MODULES = """
import pkgutil, sys
sys.path.insert(0, "/opt/jobset")
for name in ("api", "app", "certs", "controllers", "httpserver", "kube", "manifests", "webhooks"):
    __import__(name)
    for module in pkgutil.walk_packages(sys.modules[name].__path__, name + "."):
        if not module.name.endswith("__main__"):
            __import__(module.name)
import certifi, re2, ssl, uvloop
ssl.create_default_context(cafile=certifi.where())
print(*sorted({module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)}), sep="\\n")
"""
"""Imports everything that the manager may import, and prints where it comes from."""


class Image(NamedTuple):
    root: Path
    """What it was made from."""
    folder: Path
    """The layout, and the SBOMs."""


def build(folder: Path) -> Image:
    image = Image(folder / "root", folder / "image")
    done = subprocess.run(  # noqa: S603 - our own script
        [ROOT / "docker" / "rootfs.sh", "image", *image],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},  # uv of the environment
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return image


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Not pytest's own, which only its owner can enter: programs in it run as another user."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(scope="module")
def image(folder: Path) -> Image:
    return build(folder / "one")


@pytest.fixture(scope="module")
def unpacked(image: Image, folder: Path) -> Path:
    """The file system that a container gets."""
    return unpack(read(image.folder / "oci")[1], folder / "unpacked")


def inside(unpacked: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A program that sees nothing but the image, as the user that the image names; or as any user, without root here."""
    as_user = ("chroot", "--userspec=65532:65532") if os.getuid() == 0 else ("unshare", "--map-root-user", "chroot")
    return subprocess.run(  # noqa: S603 - what was just built
        [shutil.which(as_user[0]) or "", *as_user[1:], unpacked, *command],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def interpreter(unpacked: Path) -> str:
    return (unpacked / "manager").read_text().split()[0].removeprefix("#!")


def test_the_layout_holds_all_files_and_no_others(image, unpacked):
    same(image.root, unpacked)


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        pytest.param(["/manager", "--help"], "--zap-log-level", id="the entry point"),
        pytest.param(["/jobset", "ui", "--help"], "--allow-host", id="another command"),
    ],
)
def test_commands_start_in_it(unpacked, command, flag):
    done = inside(unpacked, *command)
    assert done.returncode == 0, done.stderr
    assert flag in done.stdout


def test_every_module_can_be_imported_in_it(unpacked):
    done = inside(unpacked, interpreter(unpacked), "-IBSc", MODULES)
    assert done.returncode == 0, done.stderr
    assert "/opt/jobset/controllers/__init__.py" in done.stdout.split()


def test_there_is_no_shell_and_no_tool(unpacked):
    assert inside(unpacked, "sh", "-c", "true").returncode == 127
    programs = {
        path.relative_to(unpacked).as_posix()
        for path in unpacked.rglob("*")
        if path.is_file() and os.access(path, os.X_OK) and path.suffix != ".py" and ".so" not in path.name
    }
    assert programs == {"manager", "jobset", interpreter(unpacked).removeprefix("/")}
    privileged = stat.S_ISUID | stat.S_ISGID
    assert not [path for path in unpacked.rglob("*") if path.is_file() and path.lstat().st_mode & privileged]


def test_every_library_of_the_system_is_in_the_sboms(image, unpacked):
    named = {
        part["name"]
        for part in json.loads((image.folder / "jobset.cdx.json").read_text())["components"]
        if part["purl"].startswith("pkg:deb/debian/")
    }
    libraries = [
        path
        for path in unpacked.rglob("*.so*")
        if not {"etc", "opt", "lib-dynload"} & set(path.relative_to(unpacked).parts)
    ]
    assert len(libraries) > 5
    owners = {package for path in libraries if (package := owner(f"/{path.relative_to(unpacked)}"))}
    assert owners - {""} <= named
    for name in named:
        assert (unpacked / "usr/share/doc" / name / "copyright").stat().st_size > 0


def owner(library: str) -> str:
    """The package of Debian that a library belongs to; empty for libpython of an image that builds its own Python."""
    for name in (library, os.path.realpath(library), f"/usr{library}"):
        done = subprocess.run(  # noqa: S603
            [shutil.which("dpkg-query") or "", "-S", name], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    assert re.search(r"/libpython3[.\d]*\.so", library), f"{library} is of no package"
    return ""


def test_a_python_of_no_package_is_taken_as_in_the_base_image(folder):
    """That of the image `python` was built from its sources. Here it is a copy of the Python that runs the tests."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    program = folder / "python" / "bin" / stdlib.name
    program.parent.mkdir(parents=True)
    shutil.copy(Path(sys.base_prefix, "bin", stdlib.name), program)
    unused = shutil.ignore_patterns("config-*", "dist-packages", "site-packages", "test", "__pycache__")
    shutil.copytree(stdlib, folder / "python" / "lib" / stdlib.name, ignore=unused)
    root = folder / "own-python"
    done = subprocess.run(  # noqa: S603 - our own script
        [ROOT / "docker" / "build-steps.sh", "interpreter", root],
        env=os.environ | {"PYTHON": str(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = inside(root, str(program), "-IBSc", "import json, ssl; print(json.__file__)")
    assert shown.stdout.startswith(f"{folder}/python/lib/"), shown.stderr
    packages = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert "libc6" in packages
    assert not [name for name in packages if "python" in name]


def test_the_size_is_what_the_page_says(image):
    page = (ROOT / "docs" / "release.md").read_text()
    unpacked, packed = (int(found) for found in re.findall(r"(\d+) MB", page.split("## ")[1])[:2])
    (layer,) = read(image.folder / "oci")[0]["layers"]
    assert layer["size"] / 1e6 == pytest.approx(packed, rel=0.2)
    files = sum(path.lstat().st_size for path in image.root.rglob("*") if path.is_file())
    assert files / 1e6 == pytest.approx(unpacked, rel=0.2)


def test_the_same_sources_give_the_same_image(image, folder):
    again = build(folder / "again")
    for name in ("oci/index.json", "jobset.spdx.json", "jobset.cdx.json"):
        assert (again.folder / name).read_bytes() == (image.folder / name).read_bytes()
