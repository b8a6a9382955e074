"""The wheel of the Python client: what is in it, and that it works without the rest of the repository."""

import site
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.support.pages.files import ROOT

ALONE = """
import sys
sys.path[:0] = [{wheel!r}, {packages!r}]
import jobset_client.aio, jobset_client.builders, jobset_client.notebook, jobset_client.sync
assert jobset_client.__file__.startswith({wheel!r})
try:
    import app
except ImportError:
    print("alone")
"""
BARE = """
import importlib, sys
for name in ("kubernetes", "kubernetes_asyncio", "rich"):
    sys.modules[name] = None
import jobset_client.builders
for name in ("sync", "aio", "notebook"):
    try:
        importlib.import_module(f"jobset_client.{name}")
    except ImportError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked; no index is asked for anything."""
    made, unpacked = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(made)]
    subprocess.run(command, cwd=ROOT / "clients/python", check=True, capture_output=True, timeout=60)  # noqa: S603
    (file,) = made.iterdir()
    zipfile.ZipFile(file).extractall(unpacked)
    return unpacked


def test_it_holds_the_package_and_nothing_else(wheel: Path):
    assert {path.name.partition("-")[0] for path in wheel.iterdir()} == {"jobset_client"}
    source = ROOT / "clients/python/jobset_client"
    assert {path.name for path in (wheel / "jobset_client").iterdir()} == {
        path.name for path in source.iterdir() if path.name != "__pycache__"
    }
    assert (wheel / "jobset_client/py.typed").exists()
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    headers = HeaderParser().parsestr(metadata.read_text(encoding="utf-8"))
    assert headers.get_all("Provides-Extra") == ["async", "notebook", "sync"]
    assert headers["License-Expression"] == "Apache-2.0"


def run(script: str, *flags: str) -> str:
    done = subprocess.run(  # noqa: S603 (ourselves)
        [sys.executable, *flags, "-c", script],
        cwd=ROOT / "clients/python",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_module_works_without_the_rest_of_the_repository(wheel: Path):
    assert run(ALONE.format(wheel=str(wheel), packages=site.getsitepackages()[0]), "-I", "-S", "-B") == "alone\n"


def test_a_missing_extra_is_named():
    lines = run(BARE).splitlines()
    extras = [line.partition("pip install ")[2] for line in lines]
    assert extras == ["'jobset-client[sync]'", "'jobset-client[async]'", "'jobset-client[notebook]'"]
