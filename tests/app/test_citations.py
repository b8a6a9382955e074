"""What code and docs cite is there: pages, their headings, defects by their numbers."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".sh"}
GENERATED = {"build", "dist", "__pycache__"}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# `docs/reference/lifecycle.md#counters` anywhere; `[text](metrics.md#jobsets)` on a page, from where that page is.
CITED = re.compile(r"(?<![\w./-])((?:docs|manifests|tests|webhooks)/(?:[\w-]+/)*[\w-]+\.md)(?:#([\w-]+))?")
LINKED = re.compile(r"\]\(((?:\.\./)*(?:[\w-]+/)*[\w-]+\.md)?(?:#([\w-]+))?\)")
NAMED = re.compile(r"`((?:[a-z]+/)+\w+\.(?:py|yaml|sh))(?:::\w+)?`")
DEFECT = re.compile(r"\bdefects? (\d+)(?: and (\d+))?")
DEFECTS = ROOT / "docs/reference/defects.md"
HERE = Path(__file__)


def texts() -> list[Path]:
    """The files that people write, as far as they may cite something."""
    found = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if not name.startswith(".") and name not in GENERATED]
        found += [Path(folder, file) for file in files if Path(file).suffix in SUFFIXES or file == "Makefile"]
    return [path for path in found if path != HERE]


@cache
def anchors(page: Path) -> frozenset[str]:
    """What can be linked to on a page, as code hosts make it from the headings."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, 0) + 1
    return frozenset({*found, *(f"{anchor}-{n}" for anchor, times in found.items() for n in range(1, times))})


def citations() -> Iterator[tuple[str, Path, str]]:
    """Where something is cited, the page, and the heading, which may be empty."""
    for path in texts():
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        yield from ((name, ROOT / page, anchor) for page, anchor in CITED.findall(text))
        for page, anchor in LINKED.findall(FENCE.sub("", text)) if path.suffix == ".md" else ():
            yield name, (path.parent / page).resolve() if page else path, anchor


def test_every_page_and_heading_that_is_cited_is_there():
    found = list(citations())
    dead = {
        f"{where}: {page}#{anchor}"
        for where, page, anchor in found
        if not page.is_file() or (anchor and anchor not in anchors(page))
    }
    assert dead == set()
    assert sum(where.endswith(".py") and bool(anchor) for where, _, anchor in found) > 100


def test_every_file_that_a_page_names_is_there():
    pages = [path for path in texts() if path.suffix == ".md"]
    named = {(path, name) for path in pages for name in NAMED.findall(path.read_text(encoding="utf-8"))}
    gone = {(str(path), name) for path, name in named if not (ROOT / name).is_file() | (path.parent / name).is_file()}
    assert gone == set()
    assert len(named) > 100


def test_every_defect_that_is_cited_has_its_row():
    known = set(re.findall(r"^\| (\d+) \|", DEFECTS.read_text(encoding="utf-8"), re.MULTILINE))
    cited = {number for path in texts() for pair in DEFECT.findall(path.read_text(encoding="utf-8")) for number in pair}
    assert cited - known - {""} == set()
    assert len(cited) > 10


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## Two words, and more", "two-words-and-more"),
        ("### `code` and don't", "code-and-dont"),
        ("# successPolicy", "successpolicy"),
    ],
)
def test_headings_are_linked_to_as_code_hosts_do_it(tmp_path: Path, heading: str, anchor: str):
    page = tmp_path / "page.md"
    page.write_text(f"{heading}\n\n```\n# no heading\n```\n\n{heading}\n", encoding="utf-8")
    assert anchors(page) == {anchor, f"{anchor}-1"}
