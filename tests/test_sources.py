"""Limits that keep the sources readable: lines of a file, characters of a test's name, names that docstrings describe."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dev.hack.names import vague_names

ROOT = Path(__file__).parents[1]
GENERATED = {"build", "dist"}
"""Folders of generated files, beside the hidden ones."""
MODELS = ROOT / "clients/python/jobset_client/models.py"
"""Generated as well, and committed."""

MAX_LINES = 400
LONGEST_NAME = 80
TEST = re.compile(r"^ *(?:async )?def (test\w*)\(", re.MULTILINE)


def sources(folder: Path = ROOT) -> Iterator[Path]:
    """Every hand-written Python file and shell script."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in GENERATED:
            continue
        if path.is_dir():
            yield from sources(path)
        elif path.suffix in {".py", ".sh"} and path != MODELS:
            yield path


def test_no_file_is_longer_than_400_lines():
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in sources()}
    assert len(lines) > 100, "the sources are not found"
    too_long = {file: number for file, number in lines.items() if number > MAX_LINES}
    assert not too_long, f"move a subject of each into a file of its own, at most {MAX_LINES} lines: {too_long}"


def test_no_test_has_a_name_of_more_than_80_characters():
    names = [name for path in sources(ROOT / "tests") for name in TEST.findall(path.read_text(encoding="utf-8"))]
    assert len(names) > 1000, "the tests are not found"
    too_long = [name for name in names if len(name) > LONGEST_NAME]
    assert not too_long, f"say what each of these shows in at most {LONGEST_NAME} characters: {too_long}"


def test_no_test_beside_a_manager_replaces_an_object_without_asking_again():
    """A PUT of an object that was read before is refused (409) whenever the manager has written it since."""
    put = re.compile(r'request\([^()]*"PUT"')
    files = [path for path in sources(ROOT / "tests/e2e") if put.search(path.read_text(encoding="utf-8"))]
    assert not files, f"use tests.support.cluster.requests.replace_object: {files}"


DESCRIBED = re.compile(r"((?:`[a-z_]+`(?:, | and )?)+)(?: None| off| on| empty)?:")
"""Names before their description in a docstring: \"`namespace`, `name`: of the JobSet\"."""


class Described(NamedTuple):
    """A function or class whose docstring describes `names`."""

    file: Path
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    names: list[str]


def described_definitions() -> Iterator[Described]:
    for path in sources():
        text = path.read_text(encoding="utf-8") if path.suffix == ".py" else ""
        for node in ast.walk(ast.parse(text)) if DESCRIBED.search(text) else ():
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            docstring = ast.get_docstring(node) or ""
            if isinstance(node, ast.ClassDef) or "\n- " not in docstring:  # a list in a function's is of data
                names = [name for names in DESCRIBED.findall(docstring) for name in re.findall("`([^`]+)`", names)]
                yield Described(path, node, names)


def names_in(node: ast.AST) -> set[str]:
    """Parameters, variables, attributes and texts of a definition."""
    parts = list(ast.walk(node))
    names = {getattr(part, kind, None) for part in parts for kind in ("id", "attr", "arg", "name")}
    return names | {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def test_docstrings_describe_names_that_exist():
    found = list(described_definitions())
    classes: dict[str, list[ast.AST]] = {}
    for each in found:
        classes.setdefault(each.node.name, []).append(each.node)
    wrong = []
    for file, node, described in found:
        if not described:
            continue
        bases = [ast.unparse(base).rpartition(".")[2] for base in getattr(node, "bases", ())]
        known = set[str]().union(*map(names_in, [node, *(part for base in bases for part in classes.get(base, ()))]))
        wrong += [f"{file.relative_to(ROOT)}: {node.name}: {name}" for name in described if name not in known]
    assert len(found) > 1000, "the docstrings are not found"
    assert not wrong, f"these docstrings describe what is not there: {wrong}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def shown(): ...", ["participle"]),
        ("async def _finished() -> str: ...", ["participle"]),
        ("def finished() -> bool: ...", []),
        ("def kept_pods(): ...", []),
        ("def need(): ...", []),
        ("def of_pods(): ...", ["phrase"]),
        ("def _in_words(): ...", ["phrase"]),
        ("def in_place_limit(): ...", []),
        ("def rest(of, *, what): ...", ["filler", "filler", "filler"]),
        ("for one in pods: print(one)", ["filler"]),
        ("x = what; y.rest = x; z(of=x)", []),
        ("where, made = given, asked", ["vague", "vague"]),
        ("def lack(who): ...", ["vague", "vague"]),
        ("place, free_places, restarts_in_place = MAX_PLACES", ["place", "place"]),
    ],
)
def test_names_that_say_nothing_are_found(code: str, found: list[str]):
    assert [kind for kind, _, _ in vague_names(ast.parse(code))] == found
