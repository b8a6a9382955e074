"""Exit codes: exitCodePolicy of a ReplicatedJob, onExitCodes of a failure policy rule."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import RJOB, changed, errors
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts

ENGINE = engine(FeatureGates({"AllAlpha": True}))
R = "spec.replicatedJobs[0]"
JOB = f"{R}.template.spec"
RULE = "spec.failurePolicy.rules[0]"
CODES = f"{RULE}.onExitCodes"
NEEDS_NEVER = (
    "exitCodePolicy needs restartPolicy Never: else containers are restarted in their pod, and no pod fails by an exit"
    " code"
)
POD = {
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "busybox"}, {"name": "side", "image": "busybox"}],
    "initContainers": [{"name": "fetch", "image": "busybox"}],
}


def worker(name: str = "a", policy: Any = None, own: list[JSON] | None = None, **job: Any) -> JSON:
    """A ReplicatedJob whose pods are never restarted; `own` are the rules of its podFailurePolicy."""
    job = job | ({} if own is None else {"podFailurePolicy": {"rules": own}})
    return rjob(name, job=job, pod=POD, **({} if policy is None else {"exitCodePolicy": policy}))


AGENT = {"serviceAccountName": "agents", "containers": [{"name": "agent", "image": "agent"}]}


def restarted(name: str = "a", **fields: Any) -> JSON:
    return rjob(name, **fields)


def on(*values: int, operator: str = "In", **fields: Any) -> JSON:
    return {"onExitCodes": {"operator": operator, "values": list(values), **fields}}


def codes(*values: int, action: str = "FailJob", operator: str = "In", **fields: Any) -> JSON:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **fields}}


def rules(*items: JSON, **policy: Any) -> JSON:
    named = [{"name": f"r{i}", "action": "RestartJobSet", **item} for i, item in enumerate(items)]
    return {"maxRestarts": 5, "rules": named, **policy}


def faults(js: JSON) -> list[tuple[str, str]]:
    found = ENGINE.findings_about_new(stored(js), defaults=False)
    assert all(len(text) <= MAX_WARNING_LENGTH for text in warning_texts(found.warnings))
    return [(str(error.path), error.detail) for error in (*found.errors, *found.warnings)]


CONDITION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FIRST = "podFailurePolicy.rules[{}] decides {} first"

POLICY: dict[str, tuple[JSON, list[tuple[str, str]]]] = {
    "the table": (worker(policy={}), []),
    "lists of its own": (worker(policy={"permanent": [3], "retryable": [4], "containerName": "fetch"}), []),
    "one list": (worker(policy={"retryable": [4]}), []),
    "pods that are restarted": (restarted(exitCodePolicy={}), [(f"{JOB}.template.spec.restartPolicy", NEEDS_NEVER)]),
    "the same in place": (
        restarted(exitCodePolicy={}, job={"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}, pod=AGENT),
        [(f"{JOB}.template.spec.restartPolicy", NEEDS_NEVER)],
    ),
    "two meanings": (
        worker(policy={"permanent": [1, 3], "retryable": [2, 3, 1]}),
        [
            (f"{R}.exitCodePolicy.retryable[1]", "exit code 3 is permanent, too"),
            (f"{R}.exitCodePolicy.retryable[2]", "exit code 1 is permanent, too"),
        ],
    ),
    "pods that are replaced in time": (worker(policy={}, podReplacementPolicy="Failed"), []),
    "as many rules as there may be": (worker(policy={}, own=[CONDITION] * 18), []),
    "one for which there is no room": (
        worker(policy={}, own=[CONDITION] * 19),
        [(f"{JOB}.podFailurePolicy.rules", "podFailurePolicy may have 20 rules and would have 21: exitCodePolicy adds 2")],
    ),
    "one list takes less room": (worker(policy={"permanent": [1]}, own=[CONDITION] * 19), []),
    "too many of its own": (worker(policy={}, own=[CONDITION] * 21), []),
    "codes that are decided before": (
        worker(policy={}, own=[codes(1, 200), CONDITION, codes(137, 143, 2), codes(1)]),
        [
            (f"{R}.exitCodePolicy", FIRST.format(0, "1")),
            (f"{R}.exitCodePolicy", FIRST.format(2, "2, 137, 143")),
        ],
    ),
    "all but a few": (
        worker(policy={"permanent": [3, 4, 5]}, own=[codes(3, operator="NotIn")]),
        [(f"{R}.exitCodePolicy", FIRST.format(0, "4, 5"))],
    ),
    "codes of one container only": (worker(policy={}, own=[codes(1, containerName="side")]), []),
    "codes of the same container": (
        worker(policy={"permanent": [3], "containerName": "side"}, own=[codes(3, containerName="side")]),
        [(f"{R}.exitCodePolicy", FIRST.format(0, "3"))],
    ),
    "codes of any container": (
        worker(policy={"permanent": [3], "containerName": "side"}, own=[codes(3)]),
        [(f"{R}.exitCodePolicy", FIRST.format(0, "3"))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", POLICY)
def test_exit_code_policy(case: str):
    entry, expected = POLICY[case]
    assert faults(jobset(entry)) == expected


def test_of_many_codes_some_are_named():
    entry = worker(policy={"permanent": list(range(1, 100))}, own=[codes(*range(1, 100))])
    assert faults(jobset(entry)) == [(f"{R}.exitCodePolicy", FIRST.format(0, "1, 2, 3, 4, 5, 6, 7, 8 and 91 more"))]


RESTARTED = (
    "onExitCodes needs restartPolicy Never, which is not that of {}: containers are restarted in their pod there, and no"
    " pod fails by an exit code"
)
NO_CONTAINER = "no target of the rule has a container or init container of this name"
SHADOWED = "never reached: rule {} matches everything that it would match"
RETRIED = "never matches: exitCodePolicy retries all of them"
IN_PLACE = {"restartStrategy": "InPlaceRestart", "agent": {"image": "agent", "mode": "MainContainer"}}


def reporting(name: str, *env: JSON) -> JSON:
    """A ReplicatedJob that restarts in place."""
    main = {"name": "main", "image": "busybox", "command": ["train"], "env": list(env)}
    job = {"parallelism": 1, "completions": 1, "backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}
    return rjob(name, job=job, pod={"restartPolicy": "OnFailure", "serviceAccountName": "agents", "containers": [main]})


A, B = {"targetReplicatedJobs": ["a"]}, {"targetReplicatedJobs": ["b"]}

ON_EXIT_CODES: dict[str, tuple[JSON, list[tuple[str, str]]]] = {
    "good": (jobset(worker(), failurePolicy=rules(on(3, containerName="main"))), []),
    "only those that are targets": (jobset(restarted("a"), worker("b"), failurePolicy=rules(on(3) | B)), []),
    "a target that is restarted": (
        jobset(restarted("a"), worker("b"), failurePolicy=rules(on(3) | A)),
        [(CODES, RESTARTED.format("a"))],
    ),
    "a target whose agent reports how its worker failed": (
        jobset(reporting("a"), failurePolicy=rules(on(3, containerName="main"), **IN_PLACE)),
        [],
    ),
    "a target whose agent ends with its worker": (
        jobset(reporting("a", {"name": "RESTART_WORKER_ONLY", "value": "true"}), failurePolicy=rules(on(3), **IN_PLACE)),
        [(CODES, RESTARTED.format("a"))],
    ),
    "a container of one target is enough": (
        jobset(worker("a"), rjob("b", pod={"restartPolicy": "Never"}), failurePolicy=rules(on(3, containerName="side"))),
        [],
    ),
    "a container of another": (
        jobset(worker("a"), rjob("b", pod={"restartPolicy": "Never"}),
               failurePolicy=rules(on(3, containerName="side") | B)),
        [(f"{CODES}.containerName", NO_CONTAINER)],
    ),
    "a rule with codes does not take all": (jobset(worker(), failurePolicy=rules(on(3), {})), []),
    "a rule without does": (
        jobset(worker(), failurePolicy=rules({}, on(3))),
        [("spec.failurePolicy.rules[1]", SHADOWED.format(0))],
    ),
    "fewer codes": (
        jobset(worker(), failurePolicy=rules(on(3, 4, 5), on(4, 5), on(5, 6))),
        [("spec.failurePolicy.rules[1]", SHADOWED.format(0))],
    ),
    "all codes but some": (
        jobset(worker(), failurePolicy=rules(on(3, operator="NotIn"), on(4), on(3), on(3, 5, operator="NotIn"),
                                             on(4, operator="NotIn"))),
        [("spec.failurePolicy.rules[1]", SHADOWED.format(0)), ("spec.failurePolicy.rules[3]", SHADOWED.format(0))],
    ),
    "some codes never take all but some": (jobset(worker(), failurePolicy=rules(on(3, 4), on(3, operator="NotIn"))), []),
    "codes of one container": (jobset(worker(), failurePolicy=rules(on(3, containerName="main"), on(3))), []),
    "codes of any container": (
        jobset(worker(), failurePolicy=rules(on(3), on(3, containerName="main"))),
        [("spec.failurePolicy.rules[1]", SHADOWED.format(0))],
    ),
    "codes of the same container": (
        jobset(worker(), failurePolicy=rules(on(3, containerName="main"), on(3, containerName="main"))),
        [("spec.failurePolicy.rules[1]", SHADOWED.format(0))],
    ),
    "codes and more to match": (
        jobset(worker(), failurePolicy=rules(on(3) | {"onJobFailureMessagePatterns": ["x"]}, on(3))),
        [],
    ),
    "a limit of its own is no condition": (
        jobset(worker(), failurePolicy=rules({"maxRestarts": 1}, on(3))),
        [("spec.failurePolicy.rules[1]", SHADOWED.format(0))],
    ),
    "codes that are retried unless another container ended with a permanent one": (
        jobset(worker(policy={}), failurePolicy=rules(on(137, 143))),
        [],
    ),
    "not all of them": (jobset(worker(policy={}), failurePolicy=rules(on(137, 3))), []),
    "not in each target": (jobset(worker("a", policy={}), worker("b"), failurePolicy=rules(on(137))), []),
    "in each of the targets": (
        jobset(worker("a", policy={"retryable": [137]}), worker("b"), failurePolicy=rules(on(137) | A)),
        [(CODES, RETRIED)],
    ),
    "not in each container": (
        jobset(worker(policy={"retryable": [4], "containerName": "main"}), failurePolicy=rules(on(4))),
        [],
    ),
    "in the container": (
        jobset(worker(policy={"retryable": [4], "containerName": "main"}),
               failurePolicy=rules(on(4, containerName="main"))),
        [(CODES, RETRIED)],
    ),
    "not where the Job's own rules come first": (
        jobset(worker(policy={"retryable": [4]}, own=[CONDITION]), failurePolicy=rules(on(4))),
        [],
    ),
    "all but what is retried": (jobset(worker(policy={}), failurePolicy=rules(on(137, operator="NotIn"))), []),
    "a deadline has no exit code": (
        jobset(worker(activeDeadlineSeconds=9), failurePolicy=rules(on(3) | {"onJobFailureReasons": ["DeadlineExceeded"]})),
        [(CODES, "never matches: the deadline decides, no exit code")],
    ),
    "a deadline beside a reason with exit codes": (
        jobset(worker(activeDeadlineSeconds=9),
               failurePolicy=rules(on(3) | {"onJobFailureReasons": ["DeadlineExceeded", "BackoffLimitExceeded"]})),
        [],
    ),
    "the reason that an exitCodePolicy leads to": (
        jobset(worker(policy={}), failurePolicy=rules({"onJobFailureReasons": ["PodFailurePolicy"]})),
        [],
    ),
    "the reason that nothing permanent leads to": (
        jobset(worker(policy={"retryable": [4]}), failurePolicy=rules({"onJobFailureReasons": ["PodFailurePolicy"]})),
        [(f"{RULE}.onJobFailureReasons[0]", "Jobs never fail for this reason: no target sets podFailurePolicy")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ON_EXIT_CODES)
def test_on_exit_codes(case: str):
    js, expected = ON_EXIT_CODES[case]
    assert faults(js) == expected


@pytest.mark.parametrize(
    "js", [jobset(entry) for entry, _ in POLICY.values()] + [js for js, _ in ON_EXIT_CODES.values()]
)
def test_every_fault_has_a_fix_and_what_was_stored_may_stay(js: JSON):
    old = stored(js)
    found = ENGINE.findings_about_new(old, defaults=False)
    assert all(error.fix and "{" not in error.fix for error in (*found.errors, *found.warnings))
    assert errors(old, {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}) == []
    assert errors(old, changed(old, "suspend", to=True)) == []


@pytest.mark.parametrize(
    ("policy", "place"),
    [(None, ""), ({"permanent": [3]}, ".permanent"), ({"permanent": [1], "containerName": "main"}, ".containerName")],
)
def test_the_meaning_of_exit_codes_never_changes(policy: Any, place: str):
    old = stored(jobset(worker(policy={"permanent": [1]}), suspend=True))
    [text] = errors(old, changed(old, *RJOB, "exitCodePolicy", to=policy))
    assert text.startswith(f"{R}.exitCodePolicy{place}")
    assert text.endswith(": field is immutable")


def test_on_exit_codes_never_changes():
    old = stored(jobset(worker(), failurePolicy=rules(on(3))))
    new = changed(old, "failurePolicy", "rules", 0, "onExitCodes", "values", to=[4])
    assert errors(old, new) == [f"{CODES}.values[0]: Value is immutable"]
