"""`jobset explain` on a terminal: wrapped to its width, coloured by level, commands on lines of their own."""

import re
import shlex

import pytest

from cli.explain import show
from cli.explain.commands import commands_in
from cli.explain.terminal import terminal_text
from cli.output import columns
from diagnose.reasons import explain
from tests.diagnose.test_stuck import TABLE, Stuck
from tests.support.explain.objects import NOW

WIDTHS = (80, 100)
COLOR = re.compile(r"\x1b\[[0-9;]*m")
VERBS = {
    "kubectl": {
        *("-n", "apply", "create", "delete", "describe", "get", "label", "logs", "patch", "replace", "scale", "taint"),
        *("uncordon",),
    },
    "jobset": {"cluster", "logs", "resume", "validate", "webhooks"},
}
ARGUMENT = re.compile(r"-{0,2}[\w./=,:@|>*\"{}\[\]?\\-]+")


def on_terminal(situation: Stuck, width: int) -> list[str]:
    return list(terminal_text(explain(situation.make()), NOW, width, color=True))


@pytest.mark.parametrize("situation", TABLE, ids=lambda situation: situation.title)
def test_each_line_fits_and_nothing_is_lost(situation: Stuck):
    plain = list(show.text_lines(explain(situation.make()), NOW))
    for width in WIDTHS:
        lines = [COLOR.sub("", line) for line in on_terminal(situation, width)]
        fixes = [line for line in plain if re.match(r"[\s│]*to fix: |a new JobSet: |not looked", line)]
        commands = {command for line in fixes for command in commands_in(line)}
        for line in lines:
            words = re.sub(r"^[\s│├└]*(to fix: )?", "", line)
            assert len(line) <= width or " " not in words or words in commands, line
        assert {*" ".join(plain).split()} <= {*" ".join(lines).split()}
        for command in commands:
            assert any(re.sub(r"^[\s│├└]*(to fix: )?", "", line) == command for line in lines), command


@pytest.mark.parametrize("situation", TABLE, ids=lambda situation: situation.title)
def test_what_stands_on_a_line_of_its_own_is_a_command_and_no_sentence(situation: Stuck):
    explanation = explain(situation.make())
    for sentence in (*(finding.fix for finding in explanation.root.walk()), explanation.new_jobset):
        for command in commands_in(sentence):
            program, verb, *arguments = shlex.split(command)
            assert verb in VERBS[program], command
            quoted = [part for part in arguments if " " in part or "'" in part or "#" in part]
            assert all(ARGUMENT.fullmatch(part) for part in arguments if part not in quoted), command
            assert all(f"'{part}'" in command for part in quoted), command


def test_a_line_that_goes_on_is_indented_under_the_tree():
    situation = next(
        situation for situation in TABLE if situation.title.startswith("a restart that waits for pods that")
    )
    assert [COLOR.sub("", line) for line in on_terminal(situation, 80)][:6] == [
        "JobSet team-a/train: restarts, 0 of 1 Job ready or done (since 14:06:03Z, 11",
        "  min)",
        "└ it restarts (1 of at most 3 restarts counted): 1 Job of an earlier attempt",
        "  │ still exists, 1 in deletion (train-workers-0); each has to go first",
        "  └ pod train-workers-0-0 on node node-3 and 1 more there are being deleted,",
        "      overdue by 1 min: the grace period of 0 s is over (since 14:16:03Z, 1 min)",
    ]


def test_text_from_outside_cannot_colour_a_terminal():
    situation = next(situation for situation in TABLE if situation.title == "a crash loop that says why it ends")
    explanation = explain(situation.make())
    object.__setattr__(explanation.root, "message", "\x1b[2Jgone")
    assert "\x1b[2J" not in "".join(terminal_text(explanation, NOW, 80, color=True))


ROWS = [("NAME", "STATE", "CAUSE"), ("a" * 20, "waits", "one two three four five six seven eight nine ten " * 3)]


def test_the_last_column_is_wrapped_beside_the_others_or_below_them():
    wide = "".join(columns(ROWS, width=100)).splitlines()
    assert (len(wide), max(map(len, wide)) <= 100) == (4, True)
    assert all(line.startswith(" " * 31) for line in wide[2:])
    narrow = "".join(columns(ROWS, width=60)).splitlines()
    assert (len(narrow), max(map(len, narrow)) <= 60) == (5, True)
    assert narrow[1] == f"{'a' * 20}   waits"
    assert all(line.startswith("    ") for line in narrow[2:])
    assert len(list(columns(ROWS))) == 2
