"""What `jobset explain` makes of events, of the namespace and of what an earlier JobSet of the name has left."""

from datetime import timedelta
from typing import Any

import pytest

from diagnose.gather import gather
from kube.client import Client
from tests.diagnose.test_look_ups import HELD, Refusing, read
from tests.diagnose.test_look_ups import a_set as plain_set
from tests.support.explain.objects import (
    MOMENT,
    NOW,
    at,
    causes,
    event,
    explained,
    explanation_of,
    job_of,
    made,
    owner,
    pod_of,
)
from tests.support.explain.stuck import a_set, gone, node, silent_node, started
from tests.support.explain.stuck_jobs import earlier
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
BEFORE = (NOW - MOMENT).total_seconds() + 60
"""Seconds ago, a minute before the set was created."""


def warned(**of: Any) -> JSON:
    return event("HeadlessServiceCreationFailed", "Service train exists already", **of)


@pytest.mark.parametrize(
    ("warning", "reported"),
    [
        (warned(about="uid-train", ago=60), True),
        (warned(about="uid-of-another", ago=60), False),
        (warned(ago=60), True),
        (warned(ago=BEFORE), False),
    ],
)
def test_warnings_about_an_earlier_set_of_the_same_name_are_left_out(warning: JSON, reported: bool):
    js = a_set()
    _, body = explained(js, [started(js, ready=1)], [], warnings=[warning])
    assert causes(body) == (["warning"] if reported else [])


@pytest.mark.parametrize(("ago", "reported"), [(60, True), (BEFORE, False)])
def test_pods_of_an_earlier_set_that_were_preempted_are_left_out(ago: float, reported: bool):
    js = a_set()
    ended = [gone("Preempted", "Preempted by pod 1 on node n", eventTime=at(NOW - timedelta(seconds=ago)))]
    _, body = explained(js, [started(js)], [], disruption_events=ended)
    assert ("preempted" in causes(body)) is reported


pytestmark = pytest.mark.looptime
OF_OTHERS = "Service train exists already and belongs to JobSet before: pods of this JobSet get DNS names only if it"


def namespace(**conditions: str) -> JSON:
    """One that is being deleted, with such conditions."""
    of = [
        {"type": kind, "status": status, "message": f"says {kind}", "lastTransitionTime": at(MOMENT)}
        for kind, status in conditions.items()
    ]
    meta = {"name": "default", "deletionTimestamp": at(MOMENT)}
    return {"kind": "Namespace", "metadata": meta, "status": {"phase": "Terminating", "conditions": of}}


async def test_a_namespace_that_is_being_deleted_is_all_there_is_to_say():
    ends = namespace(NamespaceContentRemaining="True", NamespaceDeletionContentFailure="False")
    text, body = explanation_of((await read(plain_set(), ends))[0])
    assert (body["state"], causes(body)) == ("is being deleted", ["namespace-deleted", "namespace-condition"])
    assert "└ its namespace default is being deleted with all that is in it, and nothing can be created there" in text
    assert "says NamespaceContentRemaining" in text
    assert "does not exist (yet)" not in text


async def test_a_namespace_is_read_where_jobs_are_missing_or_being_deleted():
    waits = plain_set()
    waits["spec"]["replicatedJobs"].append(rjob("later", dependsOn=[{"name": "workers", "status": "Complete"}]))
    running = made(job_of(waits, 0), active=1, ready=1)
    _, asked = await read(waits, running, namespace())
    assert "/api/v1/namespaces/default" not in asked, "the missing Job waits for its turn"
    deleted = made(job_of(plain_set(), 0), active=1)
    deleted["metadata"]["deletionTimestamp"] = at(MOMENT)
    _, body = explanation_of((await read(plain_set(), deleted, namespace()))[0])
    assert causes(body) == ["namespace-deleted"]


async def test_who_may_not_read_the_namespace_is_told_so():
    found, _ = await read(plain_set(), namespace(), refused=("/api/v1/namespaces/default",))
    assert "missing" in causes(explanation_of(found)[1])
    assert any(text.startswith("the namespace: you may not get namespaces in default") for text in found.unread_notes)


def service_warning(note: str) -> JSON:
    return {"kind": "Event", "metadata": {"name": "e"}, **event("HeadlessServiceCreationFailed", note)}


def service(of: JSON) -> JSON:
    return {"kind": "Service", "metadata": {"name": "svc", "uid": "s", "ownerReferences": [owner(of)]}}


def named(note: str, *objects: JSON) -> list[JSON]:
    """A set whose Service is called `svc`, with that Warning."""
    js = made(stored(jobset(rjob(), network={"enableDNSHostnames": True, "subdomain": "svc"})))
    return [js, made(job_of(js, 0), active=1, ready=1), service_warning(note), *objects]


@pytest.mark.parametrize("note", [OF_OTHERS, "services is forbidden: exceeded quota"])
async def test_a_warning_about_a_service_that_is_there_now_is_over(note: str):
    mine, others = service(plain_set()), service(made(stored(jobset(rjob(), name="before"))))
    assert causes(explanation_of((await read(*named(note, mine)))[0])[1]) == []
    for still in ([others], []):
        assert causes(explanation_of((await read(*named(note, *still)))[0])[1]) == ["warning"]
    found, _ = await read(*named(note, mine), refused=("services",))
    assert causes(explanation_of(found)[1]) == ["warning"]
    assert any(text.startswith("the Service: you may not get services") for text in found.unread_notes)


async def test_a_service_is_looked_up_only_where_a_warning_names_one():
    js, job, *_ = named(OF_OTHERS)
    _, asked = await read(js, job, service(js))
    assert not any("/services/" in path for path in asked)


TAKEN = "the Job of an earlier JobSet of this name is still there"
UNREACHABLE = "is being deleted on node node-3, which has the taint node.kubernetes.io/unreachable"


def test_pods_of_a_node_that_is_gone_are_deleted_by_kubernetes():
    text, body = explanation_of(earlier(None))
    assert body["level"] == "waits"
    assert "wait: Kubernetes deletes such pods within two minutes" in text


def test_a_node_that_works_ends_the_pods_of_an_earlier_set_itself():
    text, body = explanation_of(earlier(node("node-3")))
    assert causes(body) == ["name-taken"]
    assert "to fix: wait: it goes with the JobSet that it belongs to" in text


@pytest.mark.looptime
@pytest.mark.parametrize(("refused", "found"), [((), True), (("pods",), False)])
async def test_the_pods_of_an_earlier_set_are_looked_up(refused: tuple[str, ...], found: bool):
    js, old = a_set(), a_set()
    js["metadata"]["namespace"] = old["metadata"]["namespace"] = "default"
    old["metadata"]["uid"] = "uid-of-another"
    job = made(job_of(old, 0), active=1)
    pod = made(pod_of(job, node="node-3"))
    for one in (job, pod):
        one["metadata"]["deletionTimestamp"] = at(MOMENT)
    cluster = Refusing(js, job, pod, {"kind": "Node", **silent_node(300)}, HELD)
    cluster.refused = refused
    text, _ = explanation_of(await gather(Client(cluster), "default", "train", NOW))
    assert TAKEN in text
    assert (UNREACHABLE in text) is found
