"""What `jobset explain` says of a JobSet that waits for what an earlier one of the same name has left."""

from __future__ import annotations

from typing import Any

import pytest

from diagnose.gather import gather
from kube.client import Client
from tests.diagnose.test_look_ups import HELD, Refusing
from tests.support.explain.objects import MOMENT, NOW, at, causes, explanation_of, job_of, made, pod_of
from tests.support.explain.stuck import a_set, node, silent_node
from tests.support.explain.stuck_waits import earlier

JSON = dict[str, Any]
TAKEN = "the Job of an earlier JobSet of this name is still there"
UNREACHABLE = "is being deleted on node node-3, which has the taint node.kubernetes.io/unreachable"


def test_the_node_that_holds_a_job_of_an_earlier_set_is_named_with_a_fix():
    text, body = explanation_of(earlier(silent_node(300)))
    assert causes(body) == ["name-taken", "earlier-waits-for-node"]
    assert body["level"] == "fault"
    assert f"pod train-workers-0-0 {UNREACHABLE}\n" in text
    assert "(since 14:12:03Z, 5 min)" in text
    assert "kubectl taint nodes node-3 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in text
    assert "forceDeletePods" not in text, "the policy is that of the earlier set"


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
