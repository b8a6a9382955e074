"""Rules of the failure policy with limits of their own, and the action that restarts a ReplicatedJob."""

from typing import Any

import pytest

from api.features import FeatureGates
from api.keys import EXCLUSIVE_TOPOLOGY
from app.engine import engine
from kube.model.jsontree import dig
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import changed, errors

DEFAULT = FeatureGates()
GATED = FeatureGates({"RestartJob": True, "ElasticJobSet": True})
RULE = "spec.failurePolicy.rules[{}]"
TOO_MANY = "JobSet cannot have a failure policy rule with RestartReplicatedJob action and a replicated job with replicas > 1024"
OLD_TOO_MANY = (
    "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action and a replicated"
    " job with replicas > 1024"
)


def ruled(*rules: Any, replicas: int = 1, **policy: Any) -> JSON:
    """A set whose rules have these actions, or are these."""
    given = [{"action": rule} if isinstance(rule, str) else rule for rule in rules]
    return stored(jobset(rjob(replicas=replicas), failurePolicy={"rules": given, **policy}))


def refused(js: JSON, gates: FeatureGates = GATED) -> list[tuple[str, str]]:
    return [(str(error.path), error.detail) for error in engine(gates).findings_about_new(js, defaults=False).errors]


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (["RestartReplicatedJob"], TOO_MANY),
        (["RestartJob"], OLD_TOO_MANY),
        (["RestartReplicatedJob", "RestartJobAndIgnoreMaxRestarts"], OLD_TOO_MANY),
    ],
)
def test_restarts_are_counted_for_so_many_jobs_only(actions: list[str], sentence: str):
    path = "spec.replicatedJobs[0].replicas"
    assert refused(ruled(*actions, replicas=1024)) == []
    assert refused(ruled(*actions, replicas=1025)) == [(path, sentence)]
    old = ruled(*actions, replicas=1024)
    grown = changed(old, "replicatedJobs", 0, "replicas", to=1025)
    assert errors(old, grown, GATED) == [f"{path}: {sentence}"]


@pytest.mark.parametrize("limit", [0, 3])
def test_a_limit_on_an_action_that_restarts_nothing_is_refused(limit: int):
    js = ruled({"action": "FailJobSet", "maxRestarts": limit})
    assert refused(js, DEFAULT) == [
        (f"{RULE.format(0)}.maxRestarts", "action FailJobSet restarts nothing, so there are no restarts to limit")
    ]
    assert errors(js, changed(js, "suspend", to=True)) == []


@pytest.mark.parametrize(
    ("action", "of_rule", "of_set", "warned"),
    [
        ("RestartJobSet", 4, 3, True),
        ("RestartJobSet", 3, 3, False),
        ("RestartJobSet", 1, 0, True),
        ("RestartJobSet", 0, 0, False),
        ("RestartJob", 4, 3, True),
        ("RestartReplicatedJob", 4, 3, True),
        ("RestartJobSetAndIgnoreMaxRestarts", 4, 3, False),
        ("RestartJobAndIgnoreMaxRestarts", 4, 0, False),
    ],
)
def test_a_limit_above_that_of_the_set_is_never_reached(action: str, of_rule: int, of_set: int, *, warned: bool):
    js = ruled({"action": action, "maxRestarts": of_rule}, maxRestarts=of_set)
    found = engine(GATED).findings_about_new(js, defaults=False)
    assert found.errors == ()
    expected = (f"{RULE.format(0)}.maxRestarts", f"never reached: spec.failurePolicy.maxRestarts is {of_set}")
    assert [(str(w.path), w.detail) for w in found.warnings] == ([expected] if warned else [])


@pytest.mark.parametrize("fail_on", ["JobFailed", "FailureTarget"])
@pytest.mark.parametrize("strategy", ["Recreate", "BlockingRecreate"])
def test_when_a_job_counts_as_failed_goes_with_every_strategy(fail_on: str, strategy: str):
    found = engine(GATED).findings_about_new(
        ruled("RestartJobSet", failOn=fail_on, restartStrategy=strategy), defaults=False
    )
    assert (found.errors, found.warnings) == ((), ())


@pytest.mark.parametrize(
    ("keys", "value"), [(("failOn",), "FailureTarget"), (("rules", 0, "maxRestarts"), 2), (("rules", 0, "action"), "FailJobSet")]
)  # fmt: skip
def test_the_policy_never_changes(keys: tuple[str | int, ...], value: Any):
    old = ruled({"action": "RestartJobSet", "maxRestarts": 1}, maxRestarts=3)
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    assert errors(old, changed(old, "failurePolicy", *keys, to=value)) == [
        f"spec.failurePolicy{place}: Value is immutable"
    ]


TEMPLATE = ("spec", "replicatedJobs", 0, "template")


@pytest.mark.parametrize(
    ("place", "told"), [(None, True), ((), False), (TEMPLATE, False), ((*TEMPLATE, "spec", "template"), False)]
)
def test_a_domain_is_kept_away_from_if_the_annotation_is_on_any_level(place: tuple[str | int, ...] | None, told: bool):
    js = ruled("RestartJobSet", maxRestarts=3, nodeFailure={"afterSeconds": 60}, avoidNodes={"scope": "Domain"})
    if place is not None:
        dig(js, *place).setdefault("metadata", {})["annotations"] = {EXCLUSIVE_TOPOLOGY: "example.com/rack"}
    found = engine(FeatureGates({"AllAlpha": True})).findings_about_new(js, defaults=False)
    assert found.errors == ()
    assert ("avoid-nodes-no-domain" in [error.rule.id for error in found.warnings]) is told
