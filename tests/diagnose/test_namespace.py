"""What `jobset explain` says of a set whose namespace is being deleted, and of a Service that could not be created."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diagnose.test_look_ups import a_set, read
from tests.support.explain.objects import MOMENT, at, causes, event, explanation_of, job_of, made, owner
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
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
    text, body = explanation_of((await read(a_set(), ends))[0])
    assert (body["state"], causes(body)) == ("is being deleted", ["namespace-deleted", "namespace-condition"])
    assert "└ its namespace default is being deleted with all that is in it, and nothing can be created there" in text
    assert "says NamespaceContentRemaining" in text
    assert "does not exist (yet)" not in text


async def test_a_namespace_is_read_where_jobs_are_missing_or_being_deleted():
    waits = a_set()
    waits["spec"]["replicatedJobs"].append(rjob("later", dependsOn=[{"name": "workers", "status": "Complete"}]))
    running = made(job_of(waits, 0), active=1, ready=1)
    _, asked = await read(waits, running, namespace())
    assert "/api/v1/namespaces/default" not in asked, "the missing Job waits for its turn"
    deleted = made(job_of(a_set(), 0), active=1)
    deleted["metadata"]["deletionTimestamp"] = at(MOMENT)
    _, body = explanation_of((await read(a_set(), deleted, namespace()))[0])
    assert causes(body) == ["namespace-deleted"]


async def test_who_may_not_read_the_namespace_is_told_so():
    found, _ = await read(a_set(), namespace(), refused=("/api/v1/namespaces/default",))
    assert "missing" in causes(explanation_of(found)[1])
    assert any(text.startswith("the namespace: you may not get namespaces in default") for text in found.unseen)


def warning(note: str) -> JSON:
    return {"kind": "Event", "metadata": {"name": "e"}, **event("HeadlessServiceCreationFailed", note)}


def service(of: JSON) -> JSON:
    return {"kind": "Service", "metadata": {"name": "svc", "uid": "s", "ownerReferences": [owner(of)]}}


def named(note: str, *objects: JSON) -> list[JSON]:
    """A set whose Service is called `svc`, with that Warning."""
    js = made(stored(jobset(rjob(), network={"enableDNSHostnames": True, "subdomain": "svc"})))
    return [js, made(job_of(js, 0), active=1, ready=1), warning(note), *objects]


@pytest.mark.parametrize("note", [OF_OTHERS, "services is forbidden: exceeded quota"])
async def test_a_warning_about_a_service_that_is_there_now_is_over(note: str):
    mine, others = service(a_set()), service(made(stored(jobset(rjob(), name="before"))))
    assert causes(explanation_of((await read(*named(note, mine)))[0])[1]) == []
    for still in ([others], []):
        assert causes(explanation_of((await read(*named(note, *still)))[0])[1]) == ["warning"]
    found, _ = await read(*named(note, mine), refused=("services",))
    assert causes(explanation_of(found)[1]) == ["warning"]
    assert any(text.startswith("the Service: you may not get services") for text in found.unseen)


async def test_a_service_is_looked_up_only_where_a_warning_names_one():
    js, job, *_ = named(OF_OTHERS)
    _, asked = await read(js, job, service(js))
    assert not any("/services/" in path for path in asked)
