"""The wheel, installed outside the repository."""

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from dev.hack.licences import required_distributions
from tests.support.pages.files import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
WHEEL = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
"""What is in it: files and folders."""


def build_wheel(folder: Path) -> Path:
    """The wheel of this repository, made in a folder."""
    [made] = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(made)


def install(wheel: Path, target: Path, *extras: str) -> Path:
    """Unpack it, and link the distributions that it needs as they are installed here."""
    target.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    for name in required_distributions(wanted):
        found = distribution(name)
        for top in {Path(file).parts[0] for file in found.files or () if ".." not in Path(file).parts}:
            place = target / top
            if not place.exists():
                place.symlink_to(str(found.locate_file(top)))
    return target


def install_command(folder: Path) -> Path:
    """`jobset` with its extra `manager`, in a virtual environment of its own in that folder."""
    make = [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(make, check=True)  # noqa: S603 (our own Python)
    [site] = (folder / "venv").glob("lib/python*/site-packages")
    install(build_wheel(folder), site, "manager")
    program = folder / "venv/bin/jobset"
    program.write_text(
        f"#!{folder}/venv/bin/python\nimport sys\nfrom jobset_controller import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    return program
