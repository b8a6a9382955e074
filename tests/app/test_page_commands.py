"""Commands on the pages can be copied: their targets, files and tests exist. A target takes as long on every page."""

import contextlib
import io
import re
import shlex
from collections import defaultdict
from itertools import takewhile

from app import cli
from tests.support.pages import ENDS, ROOT, commands, texts

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
TARGET = re.compile(r"^([\w-]+):")
PAGES = [path.read_text(encoding="utf-8") for path in texts() if path.suffix == ".md"]
LINES = [line for page in PAGES for line in page.splitlines()]
MAKE = re.compile(r"(?:^|`)make ([a-z][\w-]*(?: [a-z][\w-]*)*)")
PYTEST = re.compile(r"(?:^|`)\S*/pytest ([^`\n]+)")
TEST = re.compile(r"\btest_\w+")
JOBSET = re.compile(r"(?:\.venv/bin/|kubectl )?jobset (.+)")
INLINE = re.compile(r"`(?:\.venv/bin/|kubectl )?jobset ([^`\n]+)`")
PARSER = cli._parser(local=True)
DURATION = re.compile(r"\d[\d.]* (?:seconds|minutes)|half an hour")


def test_every_target_of_make_exists():
    targets = {target for line in MAKEFILE for target in TARGET.findall(line)}
    named = {target for line in LINES for several in MAKE.findall(line) for target in several.split()}
    assert named - targets == set()
    assert len(named) > 10


def test_every_pytest_command_finds_its_files_and_tests():
    """`FILE` and `<name>` stand for files that the reader chooses."""
    called = [command.split() for line in LINES for command in PYTEST.findall(line)]
    paths = {word for words in called for word in words if word.startswith("tests/") and "<" not in word}
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    selected = [(words[0], words[2]) for words in called if words[1:2] == ["-k"]]
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


def _misunderstood(command: str) -> str:
    """What the command line says about a command that cannot be copied, "" if nothing."""
    words = takewhile(lambda word: word not in ENDS, shlex.split(command, comments=True))
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            PARSER.parse_args([cli._double_dash(word) for word in words])
    except SystemExit as ended:
        return said.getvalue().splitlines()[-1] if ended.code else ""
    return ""


def test_every_jobset_command_of_a_page_is_understood():
    named = {found.group(1) for line in commands() if (found := JOBSET.fullmatch(line)) and "..." not in line}
    assert {command: said for command in named if (said := _misunderstood(command))} == {}
    assert len(named) > 25


def test_words_and_flags_of_a_jobset_command_in_a_sentence_exist():
    """There it stands without what it needs. `[...]` and `a|b` are choices, and what has a colon is no command."""
    named = {found for page in PAGES for found in INLINE.findall(page)}
    whole = {command for command in named if not re.search(r"[\[|:]|\.\.\.|^COMMAND", command)}
    wrong = {command: said for command in whole if (said := _misunderstood(command))}
    assert {command: said for command, said in wrong.items() if not re.search("required|expected", said)} == {}
    assert len(whole) > 60
