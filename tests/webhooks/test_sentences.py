"""Every sentence of the Go JobSet that docs/reference/admission-differences.md lists is in the answer to a JobSet that provokes it."""

import re
from pathlib import Path
from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from kube.model.field import FieldError
from tests.support.model.scripted_server import MOUNT, Script, claims, create, found_object, status
from tests.support.objects.creates import rules
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import JOB, changed
from webhooks.jobset.answers import answer
from webhooks.jobset.engine import Findings

README = (Path(__file__).parents[2] / "docs/reference/admission-differences.md").read_text(encoding="utf-8")
TABLE = README.partition("## Sentences of the Go JobSet\n")[2].partition("\n## ")[0]
SENTENCES = dict(re.findall(r"^\| `([a-z-]+)` \| ``(.+)`` \|$", TABLE, re.MULTILINE))
DEFAULT, ALL = FeatureGates(), FeatureGates({"AllAlpha": True})
LONG = "l" * 64
IN_PLACE = jobset(failurePolicy={"restartStrategy": "InPlaceRestart"})
RESTART_JOB = rules({"action": "RestartJob"})


def wait(name: str) -> JSON:
    return {"name": name, "status": "Ready"}


def coordinated(rjob_: JSON | None = None, **coordinator: Any) -> JSON:
    return jobset(rjob_ or rjob(), coordinator={"replicatedJob": "workers", **coordinator})


def claimed(*metadata: JSON, **pod: Any) -> JSON:
    mounts = [{"name": each["name"], "mountPath": "/x"} for each in metadata]
    container = {"name": "main", "image": "busybox", "volumeMounts": mounts}
    templates = [{"metadata": each, "spec": {}} for each in metadata]
    return jobset(rjob(pod={"containers": [container], **pod}), volumeClaimPolicies=[{"templates": templates}])


CREATED: dict[str, tuple[JSON, FeatureGates]] = {
    "in-place-restart-gate": (IN_PLACE, DEFAULT),
    "in-place-restart-backoff-limit": (IN_PLACE, ALL),
    "in-place-restart-pod-replacement": (IN_PLACE, ALL),
    "in-place-restart-completions": (
        jobset(rjob(completions=None), failurePolicy={"restartStrategy": "InPlaceRestart"}),
        ALL,
    ),
    "depends-on-first": (jobset(rjob(dependsOn=[])), DEFAULT),
    "depends-on-in-order": (
        jobset(rjob("a"), rjob("b", dependsOn=[wait("a")]), startupPolicy={"startupPolicyOrder": "InOrder"}),
        DEFAULT,
    ),
    "depends-on-unknown": (jobset(rjob("a"), rjob("b", dependsOn=[wait("x")])), DEFAULT),
    "depends-on-later": (jobset(rjob("a"), rjob("b", dependsOn=[wait("c")]), rjob("c")), DEFAULT),
    "depends-on-unnamed": (jobset(rjob("a"), rjob("b", dependsOn=[{"status": "Ready"}])), DEFAULT),
    "subdomain-form": (jobset(network={"subdomain": "A_b"}), DEFAULT),
    "subdomain-length": (jobset(network={"subdomain": LONG}), DEFAULT),
    "managed-by-form": (jobset(managedBy="acme.io"), DEFAULT),
    "managed-by-part": (jobset(managedBy="acme.io/a b"), DEFAULT),
    "managed-by-length": (jobset(managedBy=f"acme.io/{LONG}"), DEFAULT),
    "pod-count": (jobset(rjob(replicas=65536, parallelism=32768, completions=None)), DEFAULT),
    "group-name-form": (jobset(rjob(groupName="G")), DEFAULT),
    "group-name-length": (jobset(rjob(groupName=LONG)), DEFAULT),
    "job-name-form": (jobset(rjob("W", completions=None)), DEFAULT),
    "job-name-length": (jobset(name=LONG), DEFAULT),
    "pod-name-length": (jobset(name="n" * 46), DEFAULT),
    "success-policy-target": (jobset(successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]}), DEFAULT),
    "restart-job-gate": (jobset(failurePolicy=RESTART_JOB), DEFAULT),
    "restart-job-replicas": (jobset(rjob(replicas=1025), failurePolicy=RESTART_JOB), ALL),
    "failure-rule-name-length": (jobset(failurePolicy=rules({"name": "r" * 129})), DEFAULT),
    "failure-rule-name-form": (jobset(failurePolicy=rules({"name": "?"})), DEFAULT),
    "failure-rule-target": (jobset(failurePolicy=rules({"targetReplicatedJobs": ["x"]})), DEFAULT),
    "failure-rule-reason": (jobset(failurePolicy=rules({"onJobFailureReasons": ["x"]})), DEFAULT),
    "failure-rule-names-unique": (jobset(failurePolicy=rules({"name": "r"}, {"name": "r"})), DEFAULT),
    "coordinator-replicated-job": (coordinated(replicatedJob="x"), DEFAULT),
    "coordinator-unnamed": (jobset(coordinator={"podIndex": 0}), DEFAULT),
    "coordinator-job-index": (coordinated(jobIndex=1), DEFAULT),
    "coordinator-completion-mode": (coordinated(rjob(job={"completionMode": "NonIndexed"})), DEFAULT),
    "coordinator-completions": (coordinated(rjob(completions=None)), DEFAULT),
    "coordinator-pod-index": (coordinated(podIndex=1), DEFAULT),
    "coordinator-label": (
        jobset(coordinator={"replicatedJob": "workers"}, network={"subdomain": "s" * 60}),
        DEFAULT,
    ),
    "claim-namespace": (claimed({"name": "data", "namespace": "shared"}), DEFAULT),
    "claim-name-unique": (claimed({"name": "data"}, {"name": "data"}), DEFAULT),
    "claim-name-form": (claimed({"name": "Data"}), DEFAULT),
    "claim-name-length": (claimed({"name": "d" * 58}), DEFAULT),
    "claim-volume-conflict": (claimed({"name": "data"}, volumes=[{"name": "data", "emptyDir": {}}]), DEFAULT),
    "claim-unmounted": (jobset(**claims()), DEFAULT),
}
OLD = stored(jobset(rjob(), rjob("b", dependsOn=[wait("workers")]), managedBy="acme.io/foo"))
FINISHED = {**OLD, "status": {"conditions": [{"type": "Completed", "status": "True"}]}}
CHANGED: dict[str, tuple[JSON, JSON, FeatureGates]] = {
    "immutable-replicated-jobs": (OLD, changed(OLD, "replicatedJobs", 0, "name", to="c"), DEFAULT),
    "immutable-replicated-job": (OLD, changed(OLD, *JOB, "backoffLimit", to=1), DEFAULT),
    "immutable-depends-on": (OLD, changed(OLD, "replicatedJobs", 1, "dependsOn", 0, "status", to="Complete"), DEFAULT),
    "immutable-depends-on-presence": (OLD, changed(OLD, "replicatedJobs", 1, "dependsOn", to=None), DEFAULT),
    "immutable-managed-by": (OLD, changed(OLD, "managedBy", to=None), DEFAULT),
    "immutable-policy": (OLD, changed(OLD, "network", "subdomain", to="net"), DEFAULT),
    "resize-finished": (FINISHED, {**changed(OLD, *JOB, "parallelism", to=2), "status": FINISHED["status"]}, ALL),
    "resize-at-least-one": (OLD, changed(OLD, *JOB, "parallelism", to=0), ALL),
    "resize-together": (OLD, changed(OLD, *JOB, "parallelism", to=2), ALL),
}
EXISTING = "get persistentvolumeclaims"
ASKED: dict[str, tuple[Script, JSON]] = {
    "claim-differs": (
        Script({EXISTING: found_object(name="data-train", spec={"storageClassName": "slow"})}),
        claims(storageClassName="fast"),
    ),
    "claim-not-retained": (Script({EXISTING: found_object(name="data-train", spec={})}), claims(retain=False)),
    "claim-unchecked": (Script({EXISTING: lambda _: status(403, "Forbidden", "no right")}), claims()),
}


def says(rule: str, found: Findings, js: JSON) -> bool:
    """Whether the message of the Status has the sentence of the rule, which is one of those that were broken."""
    words = re.split(r"<\w+>", SENTENCES[rule])
    text = answer(found, js).status or {}
    broken = {error.rule.id for error in found.errors if error.rule}
    return rule in broken and re.search(".+?".join(map(re.escape, words)), text["message"]) is not None


def test_every_sentence_of_the_table_is_provoked():
    assert len(SENTENCES) > 50
    assert set(SENTENCES) == {*CREATED, *CHANGED, *ASKED}


@pytest.mark.parametrize("rule", CREATED)
def test_sentences_about_a_new_jobset(rule: str):
    js, gates = CREATED[rule]
    assert says(rule, engine(gates).create(js), js)


@pytest.mark.parametrize("rule", CHANGED)
def test_sentences_about_a_change(rule: str):
    old, new, gates = CHANGED[rule]
    assert says(rule, engine(gates).update(old, new), new)


@pytest.mark.looptime
@pytest.mark.parametrize("rule", ASKED)
async def test_sentences_about_claims_that_exist(rule: str):
    script, policies = ASKED[rule]
    js = jobset(rjob(pod=MOUNT), **policies)
    found: list[FieldError] = await create(script, js)
    assert says(rule, Findings(tuple(error for error in found if not error.is_warning), (), js), js)
