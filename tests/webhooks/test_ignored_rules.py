"""Warnings that the author of a JobSet has read: an annotation leaves them out."""

import pytest

from api.features import FeatureGates
from api.keys import IGNORE_WARNINGS
from app.engine import engine
from kube.model.field import ErrorType as Type
from kube.model.field import Path, Rule, Severity
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.answers import answer, warning_texts
from webhooks.jobset.ignored_rules import LONGEST

ENGINE = engine(FeatureGates())


def with_two_warnings(ignored: object = None) -> JSON:
    main = {"name": "main", "image": "docker.io/library/Python", "command": ["train me"]}
    js = jobset(rjob(pod={"containers": [main]}))
    js["metadata"]["annotations"] = {} if ignored is None else {IGNORE_WARNINGS: ignored}
    return js


def rules_of(js: JSON) -> list[str]:
    return [warning.rule.id for warning in ENGINE.create(js).warnings if warning.rule]


def test_every_warning_shows_its_rule():
    texts = warning_texts(ENGINE.create(with_two_warnings()).warnings)
    assert [text.rpartition(" [")[2] for text in texts] == ["command-one-word]", "image-form]"]


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        ("", ["command-one-word", "image-form"]),
        ("image-form", ["command-one-word"]),
        ("image-form, command-one-word", []),
        ("\n image-form\n command-one-word ", []),
        ("image", ["command-one-word", "image-form"]),
        ("x" * LONGEST + " image-form", ["command-one-word", "image-form"]),
    ],
)
def test_what_is_named_is_left_out(ignored: str, left: list[str]):
    assert rules_of(with_two_warnings(ignored)) == left


def test_an_update_and_what_is_added_later_are_no_exception():
    js = with_two_warnings("image-form no-such-service")
    assert [w.rule.id for w in ENGINE.update(with_two_warnings("x"), js).warnings if w.rule] == []
    rule = Rule("no-such-service", Type.INVALID, "text", "", "a page", severity=Severity.WARNING)
    assert rule.id not in [w.rule.id for w in ENGINE.create(js).and_also([rule.at(Path())]).warnings if w.rule]


def test_errors_and_the_words_of_policies_stay():
    js = with_two_warnings("group-name-form policy-forbid")
    js["spec"]["replicatedJobs"][0]["groupName"] = "A b"
    policy = Rule("policy-forbid", Type.INVALID, "text", "", "a page", severity=Severity.WARNING)
    found = ENGINE.create(js).and_also([policy.at(Path())])
    assert [error.rule.id for error in found.errors if error.rule] == ["group-name-form"]
    assert "policy-forbid" in [warning.rule.id for warning in found.warnings if warning.rule]
    assert answer(found, js).warnings[0] == ": text"
