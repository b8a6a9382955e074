"""Manifests that people copy, from examples/ and from the pages in docs/, pass `jobset validate`.

One that needs feature gates says so in itself, as `--feature-gates=...`: the reader has no other way to know.
"""

import re
from pathlib import Path

import pytest

from app import cli

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in ROOT.glob("examples/**/*.yaml") if "kind: JobSet" in path.read_text())
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), ROOT / "README.md"])
WHOLE = {"stages", "exit-codes", "success", "queueing", "gangs"}
"""Pages of which every piece of YAML is a whole manifest."""
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
GATES = re.compile(r"--feature-gates=\w+=\w+(?:,\w+=\w+)*")


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


SNIPPETS = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page), 1)
    if "kind: JobSet" in text
]


def validate(file: Path) -> int:
    return cli.main(["validate", "--strict", *GATES.findall(file.read_text())[:1], "-f", str(file)])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_are_good_except_the_one_that_shows_mistakes(file, capsys):
    code = validate(file)
    assert code == (1 if file.name == "mistakes.yaml" else 0), capsys.readouterr().out


@pytest.mark.parametrize("text", SNIPPETS)
def test_manifests_on_pages_are_good(text, tmp_path, capsys):
    file = tmp_path / "jobset.yaml"
    file.write_text(text)
    code = validate(file)
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_these_pages_show_whole_manifests(name):
    found = blocks(ROOT / "docs" / "concepts" / f"{name}.md")
    assert [text for text in found if "kind: JobSet" not in text] == []


def test_the_picture_on_the_page_about_gangs_is_what_render_draws(capsys, monkeypatch):
    page = (ROOT / "docs/concepts/gangs.md").read_text()
    [(command, picture)] = re.findall(r"^```\n\$ jobset (render [^\n]*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(ROOT)
    assert cli.main(command.split()) == 0
    assert capsys.readouterr().out == picture


def test_pages_name_tests_that_there_are():
    sources = "\n".join(path.read_text() for path in ROOT.glob("tests/**/test_*.py"))
    for page in ROOT.glob("docs/concepts/*.md"):
        text = page.read_text()
        tests = set(re.findall(r"`(test_\w+)`", text))
        assert {name for name in tests if f"def {name}(" not in sources} == set(), page
        files = set(re.findall(r"`(?:e2e )?(tests/[\w/]+\.py)`", text))
        assert {name for name in files if not (ROOT / name).exists()} == set(), page
