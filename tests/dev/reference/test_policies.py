"""The pages about the rules of policies, and their examples."""

import re
from pathlib import Path

import pytest

from authoring.rule_catalogue import all_rules
from cli import main as cli
from dev.reference.policies import pages
from policy.registry import RULES
from policy.sentences import kebab
from tests.support.pages.files import ROOT

EXAMPLES = ROOT / "examples" / "policies"


@pytest.mark.parametrize("name", sorted(rule.name for rule in RULES.values()))
def test_each_rule_has_an_example_that_is_its_test(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(ROOT)
    file = EXAMPLES / f"{kebab(name)}.yaml"
    page = (ROOT / "docs" / "policy" / f"{kebab(name)}.md").read_text()
    (command,) = re.findall(r"`jobset (policy test [^`]*)`", page)
    code, out = cli.main(command.split()), capsys.readouterr().out
    assert (code, out.splitlines()[-1]) == (0, "1 suite, 2 tests, 0 failed")
    wanted = f"- rule: {name}\n    action:"
    assert [text in file.read_text() for text in (f"{wanted} Pass", f"{wanted} Deny")] == [True, True]


def test_each_rule_has_a_page_and_nothing_else_stands_beside_them():
    made = {Path(name).name for name in pages()}
    assert {path.name for path in (ROOT / "docs" / "policy").glob("*.md")} == made | {
        "README.md",
        "admission.md",
        "compared.md",
        "from-kyverno.md",
        "audit.md",
        "defaults.md",
        "exceptions.md",
        "rollout.md",
        "status.md",
        "suites.md",
    }
    assert {path.stem for path in EXAMPLES.glob("*")} == {kebab(rule.name) for rule in RULES.values()}


def test_each_message_of_a_rule_is_in_the_list_of_errors():
    assert {message.id for rule in RULES.values() for message in rule.messages} <= {
        message.id for message in all_rules()
    }
