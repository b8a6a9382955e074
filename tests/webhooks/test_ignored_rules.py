"""Warnings that the author of a JobSet has read: an annotation leaves them out."""

import pytest

from api.features import FeatureGates
from api.keys import IGNORE_WARNINGS
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.answers import warning_texts
from webhooks.jobset.ignored_rules import MAX_ANNOTATION_LENGTH

ENGINE = engine(FeatureGates())


def with_two_warnings(ignored: object = None) -> JSON:
    main = {"name": "main", "image": "docker.io/library/Python", "command": ["train me"]}
    js = jobset(rjob(pod={"containers": [main]}))
    js["metadata"]["annotations"] = {} if ignored is None else {IGNORE_WARNINGS: ignored}
    return js


def rules_of(js: JSON) -> list[str]:
    return [warning.rule.id for warning in ENGINE.findings_about_new(js).warnings if warning.rule]


def test_every_warning_shows_its_rule():
    texts = warning_texts(ENGINE.findings_about_new(with_two_warnings()).warnings)
    assert [text.rpartition(" [")[2] for text in texts] == ["command-one-word]", "image-form]"]


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        ("", ["command-one-word", "image-form"]),
        ("image-form", ["command-one-word"]),
        ("image-form, command-one-word", []),
        ("\n image-form\n command-one-word ", []),
        ("image", ["command-one-word", "image-form"]),
        ("x" * MAX_ANNOTATION_LENGTH + " image-form", ["command-one-word", "image-form"]),
    ],
)
def test_what_is_named_is_left_out(ignored: str, left: list[str]):
    assert rules_of(with_two_warnings(ignored)) == left
