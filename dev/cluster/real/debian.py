"""Unpacks packages of Debian or Ubuntu, with all their dependencies, into a folder, without installing them.

apt checks the packages by signed lists, with the machine's own keys. Its own files stay beside the folder.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dev.cluster.errors import DevclusterError
from dev.cluster.progress import step

_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of the root that are links into /usr in all current releases. Some packages still use the old names."""


def unpack_packages(names: Sequence[str], root: Path) -> None:
    """Fill `root`, which must be absent, with the files of the packages and of all their dependencies."""
    work = root.with_name(f"{root.name}.apt")
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("lists/partial", "archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()  # an empty list of installed packages, so that apt downloads all dependencies
    options = {
        "Dir::State": work,
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "--quiet", "--yes", *(f"--option={key}={value}" for key, value in options.items())]
    try:
        with step(f"fetching packages of the distribution: {', '.join(names)}"):
            _run_command([*apt, "update"])
            _run_command([*apt, "--download-only", "install", *names])
        root.mkdir(parents=True)
        for package in sorted((work / "archives").glob("*.deb")):
            _run_command(["dpkg-deb", "--extract", str(package), str(root)])
        for name in _LINKS:
            if (root / name).is_dir():
                shutil.copytree(root / name, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
                shutil.rmtree(root / name)
                (root / name).symlink_to(f"usr/{name}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_command(command: Sequence[str]) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command lines
    if answer.returncode:
        raise DevclusterError(
            f"real nodes need packages of the distribution (Debian, Ubuntu), and `{command[0]}` failed:\n"
            f"{(answer.stderr or answer.stdout).strip()[-1500:]}\n"
            f"See that `apt-get update` works on this machine; fake nodes need none of it."
        )
