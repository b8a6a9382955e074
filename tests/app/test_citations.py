"""What code and docs cite is there: pages, their headings, files, defects by their numbers; and nothing that is not."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.support.pages.files import FENCE, ROOT, texts

pytestmark = pytest.mark.no_cover  # reads the sources, and runs none of them

# `docs/reference/lifecycle.md#counters` anywhere; `[text](metrics.md#jobsets)` on a page, from where that page is.
CITED = re.compile(r"(?<![\w./-])((?:docs|manifests|tests|webhooks)/(?:[\w-]+/)*[\w-]+\.md)(?:#([\w-]+))?")
LINKED = re.compile(r"\]\(((?:\.\./)*(?:[\w-]+/)*[\w-]+\.md)?(?:#([\w-]+))?\)")
NAMED = re.compile(r"`((?:[a-z0-9_]+/)+\w+\.(?:py|yaml|sh))(?:::\w+)?`")
DEFECT = re.compile(r"\bdefects? (\d+)(?: and (\d+))?")
DEFECTS = ROOT / "docs/reference/defects.md"
# Sections of a document that was never here: "behaviour section 5.8", "(5.8 D)", "3.2 row 8a", "7.1 #17", "clients.md 2.7".
ABSENT = re.compile(
    r"""
    \bbehaviou?rs?,?\s+(?:of\s+)?(?:sections?\s+)?[1-7](?:\.\d+)?\b
    | ^(?!.*(?:RFC|YAML)).*\bsections?\s+[1-7](?:\.\d+)?\b
    | (?<!\w)[(;]\s*[1-7]\.1?\d(?:\s+[A-E])?[);]
    | \b[1-7]\.1?\d,?\s+(?:(?:rows?|steps?|items?|no\.)\s|\#\d)
    | \brows?\s+[1-9][a-h]\b
    | (?<![\w/-])(?:behaviour|clients|scheduling|numbers)\.md
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
TEXTS = [path for path in texts() if path != Path(__file__)]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
# A file or folder, also inside of a command; not one that a newcomer makes, such as `app/<name>.py`.
MENTIONED = re.compile(r"(?<![\w./-])((?:[a-z_]+/)*\w+\.(?:py|md|yaml)|(?:[a-z_]+/)+[a-z_]+)(?![\w<])(?![./-]\w)")
TASK = re.compile(r"^### ([^\n]+): (\d+) files$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
MAX_FILES = {
    "A failure action": 6,
    "An admission rule with a warning": 4,
    "A rule of policies": 4,
    "A metric": 5,
    "A command": 4,
    "A field of the spec, end to end": 9,
    "A status field": 8,
    "A feature gate that changes child Jobs": 5,
    "A change of scheduling": 8,
}
"""Files that a newcomer may have to edit by hand, for each task."""


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
    for path in TEXTS:
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
    pages = [path for path in TEXTS if path.suffix == ".md"]
    named = {(path, name) for path in pages for name in NAMED.findall(path.read_text(encoding="utf-8"))}
    gone = {(str(path), name) for path, name in named if not (ROOT / name).is_file() | (path.parent / name).is_file()}
    assert gone == set()
    assert len(named) > 100


def test_every_path_that_contributing_mentions_is_there():
    code = re.findall(r"`([^`]+)`", FENCE.sub("", CONTRIBUTING.read_text(encoding="utf-8")))
    mentioned = {path for text in code for path in MENTIONED.findall(text)}
    assert {path for path in mentioned if not (ROOT / path).exists()} == set()
    assert len(mentioned) > 40


def test_every_name_of_the_code_that_a_task_mentions_is_there():
    tasks = "".join(text for _, _, text in TASK.findall(CONTRIBUTING.read_text(encoding="utf-8")))
    code = "\n".join(path.read_text(encoding="utf-8") for path in TEXTS if path.suffix == ".py")
    names = {part for name in re.findall(r"`([A-Za-z_][\w.]*)`", tasks) for part in name.split(".") if "_" in part}
    assert {name for name in names if not re.search(rf"\b{name}\b", code)} == set()
    assert len(names) > 5


def test_tasks_of_contributing_take_the_files_that_they_say_and_not_too_many():
    tasks = TASK.findall(CONTRIBUTING.read_text(encoding="utf-8"))
    files = {title: re.findall(r"^(\d+)\. `\S+`", text, re.MULTILINE) for title, _, text in tasks}
    assert files == {title: [str(number) for number in range(1, int(most) + 1)] for title, most, _ in tasks}
    assert {title: len(found) <= MAX_FILES[title] for title, found in files.items()} == dict.fromkeys(MAX_FILES, True)


def test_every_defect_that_is_cited_has_its_row():
    known = set(re.findall(r"^\| (\d+) \|", DEFECTS.read_text(encoding="utf-8"), re.MULTILINE))
    cited = {number for path in TEXTS for pair in DEFECT.findall(path.read_text(encoding="utf-8")) for number in pair}
    assert cited - known - {""} == set()
    assert len(cited) > 10


def test_nothing_cites_a_document_that_is_not_here():
    found = {(str(path), cited) for path in TEXTS for cited in ABSENT.findall(path.read_text(encoding="utf-8"))}
    assert found == set()


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


def test_the_first_page_says_what_the_packages_say_of_themselves():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = yaml.safe_load((ROOT / "charts/jobset/Chart.yaml").read_text(encoding="utf-8"))
    python, kubernetes = project["requires-python"].removeprefix(">="), chart["kubeVersion"].removeprefix(">=")
    line = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[2]
    facts = (project["license"], f"Python {python} or newer", f"Kubernetes {kubernetes.removesuffix('.0-0')} or newer")
    assert [fact for fact in facts if fact not in line] == []
