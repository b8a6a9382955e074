"""Commands on the pages can be copied: their targets, files and tests exist. A target takes as long on every page."""

import re
from collections import defaultdict

from tests.support.pages import ROOT, texts

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
TARGET = re.compile(r"^([\w-]+):")
LINES = [line for path in texts() if path.suffix == ".md" for line in path.read_text(encoding="utf-8").splitlines()]
MAKE = re.compile(r"(?:^|`)make ([a-z][\w-]*(?: [a-z][\w-]*)*)")
PYTEST = re.compile(r"(?:^|`)\S*/pytest ([^`\n]+)")
TEST = re.compile(r"\btest_\w+")
DURATION = re.compile(r"\d[\d.]* (?:seconds|minutes)|half an hour")


def test_every_target_of_make_exists():
    targets = {target for line in MAKEFILE for target in TARGET.findall(line)}
    named = {target for line in LINES for several in MAKE.findall(line) for target in several.split()}
    assert named - targets == set()
    assert len(named) > 10


def test_every_pytest_command_finds_its_files_and_tests():
    """`FILE` and `<name>` stand for files that the reader chooses."""
    commands = [command.split() for line in LINES for command in PYTEST.findall(line)]
    paths = {word for words in commands for word in words if word.startswith("tests/") and "<" not in word}
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    selected = [(words[0], words[2]) for words in commands if words[1:2] == ["-k"]]
    names = {path: " ".join(TEST.findall((ROOT / path).read_text(encoding="utf-8"))) for path, _ in selected}
    assert [word for path, word in selected if word not in names[path]] == []
    assert (len(paths) > 10, len(selected) > 0) == (True, True)


def test_every_test_that_a_page_names_exists():
    files = list((ROOT / "tests").rglob("test_*.py"))
    known = {path.stem for path in files}
    known |= {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
    named = {name for line in LINES for name in TEST.findall(line)}
    assert named - known == set()
    assert len(named) > 100


def test_a_target_takes_the_same_time_on_every_page():
    found: dict[str, set[str]] = defaultdict(set)
    for line in LINES:
        for named in re.findall(r"^(?:\| `)?make (test[\w-]*)", line):
            found[named] |= set(DURATION.findall(line))
    target = ""
    for line in MAKEFILE:
        target = next(iter(TARGET.findall(line)), target)
        found[target] |= set(DURATION.findall(line))
    times = [found[target] for target in ("test", "test-unit", "test-all")]
    assert [len(durations) for durations in times] == [1, 1, 1], times
