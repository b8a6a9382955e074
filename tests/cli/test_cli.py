"""What all commands of `jobset` have in common."""

import argparse
import tomllib

import pytest

from app import version
from cli import main as cli
from cli.table import COMMANDS
from tests.support.pages.files import ROOT


@pytest.mark.parametrize("words", [["--version"], ["version"]])
def test_the_version_is_printed_alone(command, words: list[str]):
    assert command(*words) == (0, f"{version.current_version()}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_what_its_row_of_the_overview_says(command, name: str):
    """Which is there before its module is imported."""
    [subparsers] = [action for action in cli._parser(name)._actions if isinstance(action, argparse._SubParsersAction)]
    assert {each.dest: each.help for each in subparsers._choices_actions}[name] == COMMANDS[name].summary
    _, out, _ = command("--help")
    assert f"    {name:16}{COMMANDS[name].summary}\n" in out


def test_kubectl_finds_the_program_as_a_plugin():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts["kubectl-jobset"] == scripts["jobset"] == "jobset_controller:main"
    assert scripts["kubectl_complete-jobset"] == "jobset_controller:complete"


def test_the_page_of_the_command_line_names_every_command(command):
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    _, out, _ = command("--help")
    commands = [line.split()[0] for line in out.splitlines() if line.startswith("    ") and line[4] != " "]
    assert len(commands) > 8
    assert [name for name in commands if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("webhooks", "While they are off: - JobSets are created and changed without defaults"),
        ("render", "Without one, owner references and the labels jobset-uid and restart-attempt are"),
        ("ui", "every user of this machine can open it"),
    ],
)
def test_help_has_examples_exit_codes_and_what_to_know(command, name: str, says: str):
    code, out, _ = command(name, "--help")
    assert (code, "examples:" in out, "exit codes:" in out) == (0, True, True)
    assert says in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["validae"], "validate"), (["wait", "train", "--for=finish"], "finished"), (["validate", "-o", "jsn"], "json")],
)
def test_a_wrong_choice_gets_the_one_that_is_likely_meant(command, words: list[str], meant: str):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert f'invalid choice: {words[-1].rpartition("=")[2]!r}; did you mean "{meant}"?' in err
