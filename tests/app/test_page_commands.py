"""Commands on the pages can be copied: their targets, files and tests exist. A target takes as long on every page."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from itertools import takewhile

import pytest

from cli import main as cli
from tests.support.pages.commands import NOT_RUN, RUN_BY, elsewhere
from tests.support.pages.files import ENDS, FENCE, ROOT, commands, pages
from tests.support.pages.scenes import SCENES

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
TARGET = re.compile(r"^([\w-]+):")
PAGES = [path.read_text(encoding="utf-8") for path in pages()]
LINES = [line for page in PAGES for line in page.splitlines()]
MAKE = re.compile(r"(?:^|`)make ([a-z][\w-]*(?: [a-z][\w-]*)*)")
PYTEST = re.compile(r"(?:^|`)\S*/pytest ([^`\n]+)")
TEST = re.compile(r"\btest_\w+")
JOBSET = re.compile(r"(?:\.venv/bin/|kubectl )?jobset (.+)")
INLINE = re.compile(r"`(?:\.venv/bin/|kubectl )?jobset ([^`\n]+)`")
COMMANDS = commands()
PROGRAMS = {each.text.split()[0] for each in COMMANDS} | {"$"}
DURATION = re.compile(r"\d[\d.]* (?:seconds|minutes)|half an hour")


def test_every_target_of_make_exists():
    targets = {target for line in MAKEFILE for target in TARGET.findall(line)}
    named = {target for line in LINES for several in MAKE.findall(line) for target in several.split()}
    assert named - targets == set()
    assert len(named) > 10


def test_commands_are_in_blocks_whose_language_says_so():
    """`sh` or `console`. Lines with " / " or ": " are those of a picture and of a message."""
    others = [
        block for page in PAGES for _, language, block in FENCE.findall(page) if language not in {"sh", "console"}
    ]
    found = {line for block in others for line in block.splitlines() if {*line.split()[:1]} & PROGRAMS}
    assert {line for line in found if not re.search(" / |: ", line)} == set()


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


def test_every_command_is_run_or_is_not_for_a_reason():
    """By what is said of it in `page_commands.py`, or else in the scene of its page."""
    found = {command: elsewhere(command) for command in COMMANDS}
    assert {command for command, patterns in found.items() if not patterns and command.page not in SCENES} == set()
    assert {command: patterns for command, patterns in found.items() if len(patterns) > 1} == {}
    assert {*RUN_BY, *NOT_RUN} - {pattern for patterns in found.values() for pattern in patterns} == set()


def test_every_step_of_a_scene_is_about_a_command_of_its_page():
    for page, scene in SCENES.items():
        mine = [each for each in COMMANDS if each.page == page and not elsewhere(each)]
        taken = {next((start for start in scene.steps if each.text.startswith(start)), "") for each in mine}
        assert {*scene.steps} - taken == set(), page
        assert [start for start in scene.order if not any(each.text.startswith(start) for each in mine)] == []
        shown = [(each.shown, scene.step(each.text).says) for each in mine if each.shown]
        assert [text for text, says in shown if not (says and re.search(says, text))] == [], page


def test_what_is_said_to_run_a_command_is_there():
    places = [place for place in (*RUN_BY.values(), *(place for _, place in NOT_RUN.values())) if place]
    parts = [place.split("::", 1) for place in places]
    assert [(file, words) for file, words in parts if words not in (ROOT / file).read_text(encoding="utf-8")] == []


@pytest.mark.slow
def test_flags_that_make_is_given_are_those_of_its_program():
    given = [found for each in COMMANDS if (found := re.fullmatch(r"make ([\w-]+) ARGS=\"?([^\"]*)\"?", each.text))]
    for target in {found[1] for found in given}:
        [(module, more)] = re.findall(
            rf"^{target}:.*\n\t.*python -m (\S+)(.*) \$\(ARGS\)", "\n".join(MAKEFILE), re.MULTILINE
        )
        words = [sys.executable, "-m", module, *more.split(), "--help"]
        known = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout  # noqa: S603
        flags = {
            flag
            for found in given
            if found[1] == target
            for flag in re.findall(r"(?:^| )(-[-\w]+)", re.sub("'.*'", "", found[2]))
        }
        assert {flag for flag in flags if not re.search(rf"{flag}\b", known)} == set(), target
    assert len(given) > 10


def _misunderstood(command: str) -> str:
    """What the command line says about a command that cannot be copied, "" if nothing."""
    words = list(takewhile(lambda word: word not in ENDS, shlex.split(command, comments=True)))
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            cli._parser(*words).parse_args([cli._double_dash(word) for word in words])
    except SystemExit as ended:
        return said.getvalue().splitlines()[-1] if ended.code else ""
    return ""


def test_every_jobset_command_of_a_page_is_understood():
    named = {found.group(1) for each in COMMANDS if (found := JOBSET.fullmatch(each.text)) and "..." not in each.text}
    assert {command: said for command in named if (said := _misunderstood(command))} == {}
    assert len(named) > 25


def test_words_and_flags_of_a_jobset_command_in_a_sentence_exist():
    """There it stands without what it needs. `[...]` and `a|b` are choices, and what has a colon is not a command."""
    named = {found for page in PAGES for found in INLINE.findall(page)}
    whole = {command for command in named if not re.search(r"[\[|:]|\.\.\.|^COMMAND", command)}
    wrong = {command: said for command in whole if (said := _misunderstood(command))}
    assert {command: said for command, said in wrong.items() if not re.search("required|expected", said)} == {}
    assert len(whole) > 60
