"""Limits that keep the sources readable: lines of a file, characters of a test's name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.hack.names import vague_names

ROOT = Path(__file__).parents[1]
GENERATED = {"build", "dist"}
"""Folders of generated files, beside the hidden ones."""
MODELS = ROOT / "clients/python/jobset_client/models.py"
"""Generated as well, and committed."""

MOST_LINES = 400
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
    too_long = {file: number for file, number in lines.items() if number > MOST_LINES}
    assert not too_long, f"move a subject of each into a file of its own, at most {MOST_LINES} lines: {too_long}"


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


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def shown(): ...", ["participle"]),
        ("async def _finished() -> str: ...", ["participle"]),
        ("def finished() -> bool: ...", []),
        ("def kept_pods(): ...", []),
        ("def need(): ...", []),
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
