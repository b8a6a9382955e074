"""What is imported is declared, what is declared is imported, and its licences are known."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dev.hack import licences

pytestmark = pytest.mark.no_cover  # reads the sources, and runs none of them

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


REQUIRED = names(PROJECT["project"]["dependencies"])
EXTRA = {name for extra in PROJECT["project"]["optional-dependencies"].values() for name in names(extra)}
DEVELOPMENT = names(PROJECT["dependency-groups"]["dev"])

INSTALLED = [
    path
    for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    if (ROOT / path).is_dir() and not path.startswith(("clients/", "examples"))
]
BY_PEOPLE_WHO_CHANGE_IT = ["dev/bench", "dev/chaos", "dev/hack", "dev/reference", "dev/simulator", "tests"]
ALONE = ["agent"]
CLIENT = "clients/python"
"""Packages by what they may import: dependencies; these and what is for development; nothing."""

FOLDERS = [*INSTALLED, *BY_PEOPLE_WHO_CHANGE_IT, *ALONE]
OWN = {folder.partition("/")[0] for folder in FOLDERS}
OF_CLIENT = tomllib.loads((ROOT / CLIENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
"""The Python client is a distribution of its own, which the commands import, too: their wheel has its package."""
NOT_IMPORTED = {"httptools": "uvicorn's HTTP protocol, which httpserver extends, is made from it"}
"""Declared dependencies that no module of ours imports, and why they are needed."""


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements, and none of the far more expressions."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, blocks, ())


def imports(package: str) -> Iterator[str]:
    """Top-level names that the modules of a package import, wherever they do it."""
    for path in (ROOT / package).rglob("*.py"):
        for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


distributions = cache(packages_distributions)


@cache
def imported(package: str) -> frozenset[str]:
    """Distributions that a package imports; a module of none stands for itself."""
    modules = set(imports(package)) - set(sys.stdlib_module_names) - OWN - {"jobset_client"}
    return frozenset(canonicalize_name(name) for module in modules for name in distributions().get(module, [module]))


def allowed(package: str) -> set[str]:
    """Distributions that a package may import."""
    if package in ALONE:
        return set()
    return REQUIRED | EXTRA | (set() if package in INSTALLED else DEVELOPMENT)


@pytest.mark.parametrize("package", sorted(FOLDERS))
def test_what_a_package_imports_is_declared(package: str):
    assert imported(package) - allowed(package) == set()


def test_the_python_client_imports_what_it_declares_and_the_other_way_round():
    extras = {name for extra in OF_CLIENT["optional-dependencies"].values() for name in names(extra)}
    # urllib3 and aiohttp come with the Kubernetes packages, which send requests by them; a notebook has ipython.
    assert imported(CLIENT) - {"urllib3", "aiohttp", "ipython"} == names(OF_CLIENT["dependencies"]) | extras
    assert extras - REQUIRED - DEVELOPMENT == set(), "tests need what it is built on"


def test_the_python_client_has_the_version_of_the_manager():
    assert (OF_CLIENT["version"], OF_CLIENT["requires-python"]) == (
        PROJECT["project"]["version"],
        PROJECT["project"]["requires-python"],
    )


def test_every_folder_with_modules_is_among_these():
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for pattern in ("[!.]*/*.py", "dev/*/*.py")
        for path in ROOT.glob(pattern)
    }
    assert folders - {"dev"} == set(FOLDERS)


def test_what_is_declared_is_imported():
    used = {name for package in INSTALLED for name in imported(package)}
    assert (REQUIRED | EXTRA) - used == NOT_IMPORTED.keys()


def test_the_page_of_licences_is_current():
    assert licences.PAGE.read_text(encoding="utf-8") == licences.page(), "run `make generate` and commit the result"


def test_every_licence_is_known():
    assert [name for name in licences.image_distributions() if licences.licence(name) == "unknown"] == []
    assert "pydantic" in licences.image_distributions()
    assert "pytest" not in licences.image_distributions()
