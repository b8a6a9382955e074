"""The answers of the pod webhooks: who is asked about a follower, what is refused, in which words; never a fault of ours."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import keys
from api.exclusive import Domain, NoDomain, TermForm
from tests.support.asgi import post
from tests.support.objects.jobsets import JSON, jobset, rjob
from tests.support.objects.pods import JOB_UID, RACK, exclusive, pod_of
from tests.support.objects.reviews import answer, encode, review
from tests.webhooks.test_default import JUNK
from webhooks.pod.handlers import MUTATE_PATH, VALIDATE_PATH, pod_handlers
from webhooks.router import create_app

LEADER = "train-workers-0-0-abcde"
KNOWN = Domain("rack-7", LEADER, "node-70")
UNSCHEDULED = NoDomain(f"its leader pod {LEADER} is not scheduled: 0/3 nodes are available", LEADER)
NO_LEADER = NoDomain("its Job has no leader pod (the one with completion index 0)")
PATHS = [MUTATE_PATH, VALIDATE_PATH]


class Played:
    """Domains that always gives one answer, and keeps what it was asked."""

    def __init__(self, answer: Domain | NoDomain) -> None:
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []

    def find(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        self.asked.append(("find", namespace, job_uid, topology))
        return self.answer

    async def wait_for_domain(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        self.asked.append(("wait_for_domain", namespace, job_uid, topology))
        return self.answer


async def ask(path: str, pod: Any, domains: Played | None = None, **more: Any) -> JSON:
    handlers = pod_handlers(domains or Played(UNSCHEDULED), lambda: TermForm.LABEL_KEYS)
    return answer((await post(create_app(handlers), path, encode(review(pod, **more)))).body)


def follower(index: int | None = 1) -> JSON:
    return pod_of(exclusive(rjob(job={} if index is not None else {"completionMode": "NonIndexed"})), index)


def without(pod: JSON, part: str, key: str) -> JSON:
    del pod["metadata"][part][key]
    return pod


async def refused(path: str, pod: JSON, domains: Played | None = None) -> str:
    response = await ask(path, pod, domains)
    assert response["allowed"] is False
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert "operations" not in response
    return str(response["status"]["message"])


async def test_a_follower_may_wait_for_its_leader_and_goes_after_it():
    domains = Played(KNOWN)
    response = await ask(MUTATE_PATH, follower(), domains)
    assert response["operations"] == [{"op": "add", "path": "/spec/nodeSelector", "value": {RACK: "rack-7"}}]
    assert domains.asked == [("wait_for_domain", "default", JOB_UID, RACK)]


async def test_the_namespace_is_that_of_the_request():
    domains = Played(KNOWN)
    await ask(MUTATE_PATH, without(follower(), "annotations", keys.JOBSET_NAME), domains)
    assert domains.asked == []
    pod = follower()
    del pod["metadata"]["namespace"]
    await ask(MUTATE_PATH, pod, domains)
    pod["metadata"]["namespace"] = "team"
    response = await ask(MUTATE_PATH, pod, domains)
    assert response["status"]["code"] == 400
    assert [asked[1] for asked in domains.asked] == ["default"]


async def test_the_placement_is_not_asked_about_leaders_and_ordinary_pods():
    domains = Played(KNOWN)
    for pod in (pod_of(exclusive(), 0), pod_of(jobset(), 1), pod_of(exclusive(node_selector=True), 1)):
        for path in PATHS:
            assert (await ask(path, pod, domains))["allowed"] is True
    assert domains.asked == []


async def test_the_form_is_asked_for_each_time():
    forms = [TermForm.EXPRESSIONS, TermForm.LABEL_KEYS]
    app = create_app(pod_handlers(Played(KNOWN), forms.pop))
    found = []
    for _ in range(2):
        response = answer((await post(app, MUTATE_PATH, encode(review(pod_of(exclusive(), 0))))).body)
        found.append("matchLabelKeys" in str(response["operations"]))
    assert found == [True, False]


async def test_a_follower_that_only_has_to_wait_is_never_refused_by_the_mutating_webhook():
    for unknown in (UNSCHEDULED, NO_LEADER):
        response = await ask(MUTATE_PATH, follower(), Played(unknown))
        assert response["allowed"] is True
        assert [operation["path"].rpartition("/")[2] for operation in response["operations"]] == [
            "schedulingGates",
            "jobset.sigs.k8s.io~1awaits-leader",
        ]


@pytest.mark.parametrize("path", PATHS)
async def test_pods_of_a_job_without_an_index_are_refused_at_once(path: str):
    domains = Played(UNSCHEDULED)
    text = await refused(path, follower(None), domains)
    assert "pod train-workers-0-xxxxx has no completion index: its Job is not Indexed" in text
    assert "create the JobSet again with completionMode: Indexed" in text
    assert domains.asked == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("index", [0, 1])
async def test_without_the_key_of_its_job_a_pod_cannot_be_placed(path: str, index: int):
    text = await refused(path, without(follower(index), "labels", keys.JOB_KEY))
    assert text.startswith(f"pod missing label: {keys.JOB_KEY}: ")
    assert f"train-workers-0-{index}-xxxxx" in text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("owners", [[], [{"apiVersion": "v1", "kind": "Job", "name": "x", "uid": "u"}]])
async def test_a_follower_without_an_owner_is_refused(path: str, owners: list[JSON]):
    pod = follower()
    pod["metadata"]["ownerReferences"] = owners
    assert (await refused(path, pod)).startswith("follower pod has no owner reference: ")


async def test_a_follower_with_neither_domain_nor_gate_is_refused_with_leader_and_reason():
    domains = Played(UNSCHEDULED)
    text = await refused(VALIDATE_PATH, follower(), domains)
    assert text.startswith(
        "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error: pod "
        "train-workers-0-1-xxxxx has to wait: "
    )
    assert UNSCHEDULED.reason in text
    assert "the Job controller tries again" in text
    assert keys.PLACEMENT_GATE in text
    assert domains.asked == [("find", "default", JOB_UID, RACK)]


async def test_the_sentences_of_the_go_jobset_are_kept():
    pod = follower()
    pod["spec"]["nodeSelector"] = {"zone": "z"}
    text = await refused(VALIDATE_PATH, pod, Played(NO_LEADER))
    missing = f"follower pod node selector for topology domain not found. missing selector: {RACK}: "
    assert text.startswith(missing)
    assert "expected 1 leader pod (train-workers-0-0), but got 0. this is an expected, transient error" in text


async def test_a_follower_that_lost_its_selector_is_refused_with_its_domain():
    text = await refused(VALIDATE_PATH, follower(), Played(KNOWN))
    assert f"belongs on {RACK}=rack-7, where its leader pod {LEADER} is (node node-70)" in text


@pytest.mark.parametrize(
    "spec", [{"nodeSelector": {RACK: "rack-1"}}, {"schedulingGates": [{"name": keys.PLACEMENT_GATE}]}]
)
async def test_a_follower_that_has_either_is_let_pass(spec: JSON):
    pod = follower()
    pod["spec"] |= spec
    assert (await ask(VALIDATE_PATH, pod))["allowed"] is True


@pytest.mark.parametrize("path", PATHS)
async def test_only_creations_are_looked_at(path: str):
    for operation in ("UPDATE", "DELETE", "CONNECT"):
        response = await ask(path, follower(None), operation=operation)
        assert response["allowed"] is True
        assert "operations" not in response


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_no_pod_is_400(path: str):
    for pod in (None, {"metadata": {"annotations": 1}}, {"metadata": {"labels": {"a": 1}}}, {"spec": []}):
        response = await ask(path, pod)
        assert (response["allowed"], response["status"]["code"]) == (False, 400)


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_no_pod_of_a_jobset_is_left_alone(path: str):
    for pod in ({}, {"metadata": None}, {"metadata": {"annotations": None, "labels": None}, "spec": None}):
        response = await ask(path, pod)
        assert (response["allowed"], "operations" in response) == (True, False)


OURS = st.fixed_dictionaries(
    {keys.JOBSET_NAME: st.just("train"), keys.EXCLUSIVE_TOPOLOGY: st.just(RACK)},
    optional={keys.COMPLETION_INDEX: st.sampled_from(["0", "1"]) | JUNK},
)
LABELS = st.fixed_dictionaries({}, optional={keys.JOB_KEY: st.just("k") | JUNK, keys.PRIORITY: JUNK}) | JUNK
OWNER = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("apiVersion", "kind", "name", "uid", "controller"), JUNK | st.text(max_size=3))
)
META = st.fixed_dictionaries(
    {"annotations": OURS | JUNK},
    optional={"labels": LABELS, "ownerReferences": st.lists(OWNER, max_size=2) | JUNK, "name": JUNK},
)
TERMS = st.fixed_dictionaries({}, optional={"requiredDuringSchedulingIgnoredDuringExecution": JUNK}) | JUNK
AFFINITY = st.fixed_dictionaries({}, optional={"podAffinity": TERMS, "podAntiAffinity": TERMS}) | JUNK
SPEC = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("priority", "nodeName", "nodeSelector", "schedulingGates"), JUNK) | {"affinity": AFFINITY},
)
PODS = st.fixed_dictionaries({}, optional={"metadata": META | JUNK, "spec": SPEC | JUNK}) | JUNK


@given(PODS, st.sampled_from(PATHS), st.sampled_from([KNOWN, UNSCHEDULED, NO_LEADER]))
async def test_no_object_makes_a_webhook_fail(pod: Any, path: str, known: Domain | NoDomain):
    response = await ask(path, pod, Played(known))
    assert response["status"]["code"] in {200, 400, 403}
