"""Manifests that people copy, from examples/ and from the pages in docs/, pass `jobset validate`.

One that needs feature gates says so in itself, as `--feature-gates=...`: the reader has no other way to know.
"""

import json
import re
from pathlib import Path

import pytest

from cli import main as cli
from dev.demo import demo
from tests.support.pages.files import ROOT, yaml_blocks

WHOLE_JOBSET = re.compile("^kind: JobSet$", re.MULTILINE)
EXAMPLES = sorted(path for path in ROOT.glob("examples/**/*.yaml") if WHOLE_JOBSET.search(path.read_text()))
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), ROOT / "README.md"])
WHOLE = {"stages", "exit-codes", "success", "queueing", "gang-patterns", "deadlines", "escalation", "avoid-nodes"}
"""Pages of which every piece of YAML is a whole manifest."""
GATES = re.compile(r"--feature-gates=\w+=\w+(?:,\w+=\w+)*")


SNIPPETS = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, text in enumerate(yaml_blocks(page), 1)
    if WHOLE_JOBSET.search(text)
]


def validate(file: Path) -> int:
    return cli.main(["validate", "--strict", *GATES.findall(file.read_text())[:1], "-f", str(file)])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_are_good_except_the_one_that_shows_mistakes(file, capsys):
    code = validate(file)
    assert code == (1 if file.name == "mistakes.yaml" else 0), capsys.readouterr().out


def test_the_demo_has_the_gates_that_examples_need():
    named = {
        gate
        for file in EXAMPLES
        for gates in GATES.findall(file.read_text())
        for gate in gates.split("=", 1)[1].split(",")
    }
    assert {gate.removesuffix("=true") for gate in named} <= {*demo.GATES}


@pytest.mark.parametrize("text", SNIPPETS)
def test_manifests_on_pages_are_good(text, tmp_path, capsys):
    file = tmp_path / "jobset.yaml"
    file.write_text(text)
    code = validate(file)
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_these_pages_show_whole_manifests(name):
    found = yaml_blocks(ROOT / "docs" / "concepts" / f"{name}.md")
    assert [text for text in found if "kind: JobSet" not in text] == []


def test_the_picture_on_the_page_about_gangs_is_what_render_draws(capsys, monkeypatch):
    page = (ROOT / "docs/concepts/gangs.md").read_text()
    [(command, picture)] = re.findall(
        r"^```console\n\$ jobset (render [^\n]*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE
    )
    monkeypatch.chdir(ROOT)
    assert cli.main(command.split()) == 0
    assert capsys.readouterr().out == picture


def test_the_command_of_the_page_finds_the_intended_mistakes_and_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(ROOT)
    (command,) = re.findall(
        r"^jobset (validate .* examples .*)$", (ROOT / "docs/validate.md").read_text(), re.MULTILINE
    )
    assert cli.main([*command.split(), "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert {finding["file"] for finding in report["findings"]} == {"examples/mistakes.yaml"}
    assert (report["errors"], report["warnings"], report["notes"]) == (7, 0, 0)
