"""Quotas that are too small for what starts at once: admission warns, and tells no amount of the quota."""

import msgspec
import pytest

from kube.transport import Request, Response
from tests.support.model.scripted_server import GATES, Script, checks, create, status
from tests.support.objects.jobsets import JSON, jobset, rjob, stored

pytestmark = pytest.mark.looptime


def quotas(*specs: JSON | None) -> Script:
    body = {"metadata": {}, "items": [{"metadata": {"name": "secret-name"}, "spec": spec} for spec in specs]}
    return Script(answers={"list resourcequotas": lambda _: Response(200, {}, msgspec.json.encode(body))})


def of_pods(pods: int, **requests: str) -> JSON:
    resources = {"requests": {name.replace("gpu", "nvidia.com/gpu"): amount for name, amount in requests.items()}}
    containers = [{"name": "main", "image": "busybox", "resources": resources}]
    return rjob(replicas=pods, parallelism=1, completions=1, pod={"containers": containers})


async def said(script: Script, js: JSON) -> list[tuple[str, str]]:
    found = await checks(script).findings_about_new(stored(js), (), GATES, namespace="default")
    return [(str(error.path), error.detail) for error in found]


@pytest.mark.parametrize(
    ("hard", "words"),
    [
        ({"requests.cpu": "23"}, "needs 24 of cpu at once, more than a quota allows: some pods wait"),
        ({"cpu": "23999m"}, "needs 24 of cpu at once, more than a quota allows: some pods wait"),
        (
            {"requests.nvidia.com/gpu": 3},
            "needs 32 of nvidia.com/gpu at once, more than a quota allows: some pods wait",
        ),
        ({"pods": "3"}, "needs 4 of pods at once, more than a quota allows: some pods wait"),
        ({"count/pods": "3", "pods": "9"}, "needs 4 of pods at once, more than a quota allows: some pods wait"),
        ({"requests.memory": "3Gi"}, "needs 4Gi of memory at once, more than a quota allows: some pods wait"),
    ],
)
async def test_a_replicated_job_that_is_larger_than_a_quota(hard: JSON, words: str):
    js = jobset(of_pods(4, cpu="6", memory="1Gi", gpu="8"))
    assert await said(quotas({"hard": {"requests.cpu": "1000"}}, {"hard": hard}), js) == [
        ("spec.replicatedJobs[0]", words)
    ]


async def test_who_asks_with_rights_of_their_own_hears_which_quota_it_is():
    script = quotas({"hard": {"requests.memory": "3Gi"}})
    [found] = await create(script, jobset(of_pods(4, memory="1Gi")), has_author_rights=True)
    assert (
        found.detail == "needs 4Gi of memory at once, more than the 3Gi that quota secret-name allows: some pods wait"
    )
    assert found.fix == "run fewer pods at once, or have the quota raised (kubectl describe quota)"


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"hard": None},
        {"hard": {"requests.cpu": "24", "limits.cpu": "1", "services": "0", "requests.storage": "1"}},
        {"hard": {"cpu": "many"}},
        {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
        {"hard": {"cpu": "1"}, "scopeSelector": {"matchExpressions": []}},
    ],
)
async def test_a_quota_that_is_large_enough_or_about_something_else(spec: JSON | None):
    assert await said(quotas(spec), jobset(of_pods(4, cpu="6"))) == []


READY, COMPLETE = ({"name": "a", "status": status} for status in ("Ready", "Complete"))
AT_ONCE = ("spec.replicatedJobs", "needs 24 of cpu at once, more than a quota allows: some pods wait")


@pytest.mark.parametrize(
    ("spec", "depends_on", "said_of_all"),
    [
        ({}, [], [AT_ONCE]),
        ({"executionPolicy": {"executionPolicyOrder": "InOrder", "sequentialReplicatedJobs": 1}}, [], []),
        ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, [], []),
        ({}, [READY], []),
        ({}, [COMPLETE], []),
    ],
)
async def test_replicated_jobs_that_start_at_once_are_added_up(
    spec: JSON, depends_on: list[JSON], said_of_all: list[tuple[str, str]]
):
    after = {"name": "b"} | ({"dependsOn": depends_on} if depends_on else {})
    js = jobset(of_pods(4, cpu="3") | {"name": "a"}, of_pods(4, cpu="3") | after, **spec)
    assert await said(quotas({"hard": {"cpu": "23"}}), js) == said_of_all
    assert await said(quotas({"hard": {"cpu": "24"}}), js) == []


async def test_of_a_stage_its_replicated_jobs_are_added_up():
    policy = {"executionPolicyOrder": "InOrder", "sequentialReplicatedJobs": 1}
    groups = [of_pods(pods, cpu="3") | {"name": name} for name, pods in (("a", 4), ("b", 4), ("c", 4))]
    assert await said(quotas({"hard": {"cpu": "23"}}), jobset(*groups, executionPolicy=policy)) == [AT_ONCE]


async def test_without_the_right_to_read_quotas_nothing_is_said():
    script = Script(answers={"list resourcequotas": lambda _: status(403, "Forbidden", "no right")})
    assert await said(script, jobset(of_pods(4, cpu="6"))) == []


@pytest.mark.parametrize("js", [jobset(of_pods(0, cpu="6")), jobset(rjob(replicas=9))])
async def test_a_set_whose_pods_request_nothing_asks_for_no_quota(js: JSON):
    script = quotas({"hard": {"pods": "0", "cpu": "1"}})
    assert await said(script, js) == []
    assert not any(map(_is_read, script.requests))


def _is_read(request: Request) -> bool:
    return request.path.endswith("/resourcequotas")
