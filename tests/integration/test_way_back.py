"""The way back to the Go JobSet: what an API server drops under its CRD, and that `jobset rollback-check` names it.

No controller runs and no webhook is asked. The sets are those of the corpus, and one for each field that is dropped.
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from api.features import FeatureGates
from api.keys import CONTROLLER_NAME
from api.own_fields import OWN_FIELDS
from app.engine import engine
from cli.rollback.run import Options, run
from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec
from kube.model.jsontree import items
from manifests import crd
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import MERGE, OwnCluster, listed, replace_object, request, wait_for
from tests.support.corpus.go_crd import ACTIONS, go_crd
from tests.support.corpus.manifests import cases
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH = JOBSETS.format("default")
RULE = {"name": "r", "action": "RestartJobSet"}
CODES = {"operator": "In", "values": [137]}
OURS = {
    "stages": {"executionPolicy": {"executionPolicyOrder": "InOrder"}},
    "any-order": {"executionPolicy": {"executionPolicyOrder": "AnyOrder"}},
    "gang": {"scheduling": {"schedulingPolicy": {"gang": {}}}},
    "deadline": {"activeDeadlineSeconds": 60},
    "share": {"successPolicy": {"operator": "All", "minSucceeded": "80%", "unit": "Pod"}},
    "unit": {"successPolicy": {"operator": "All", "unit": "Job"}},
    "early": {"failurePolicy": {"failOn": "FailureTarget", "startTimeoutSeconds": 60, "inPlaceRestarts": 1}},
    "nodes": {"failurePolicy": {"nodeFailure": {"afterSeconds": 30, "action": "RestartJobSet"}}},
    "moves": {"failurePolicy": {"maintenance": {"taintKeys": ["example.com/maintenance"]}}},
    "wary": {"failurePolicy": {"avoidNodes": {"onPodReasons": ["UnexpectedAdmissionError"]}}},
    "agents": {"failurePolicy": {"agent": {"image": "agent"}}},
    "late": {"failurePolicy": {"failOn": "JobFailed"}},
    "rules": {"failurePolicy": {"rules": [RULE, {**RULE, "name": "s", "onExitCodes": CODES, "maxRestarts": 0}]}},
    "steps": {"failurePolicy": {"rules": [{**RULE, "then": [{"afterRestarts": 1, "action": "FailJobSet"}]}]}},
    "reasons": {"failurePolicy": {"rules": [{**RULE, "onPodReasons": ["Evicted"]}]}},
    "action": {"failurePolicy": {"rules": [{**RULE, "action": "RestartReplicatedJob"}]}},
    "codes": {"replicatedJobs": [rjob("a"), rjob("b", exitCodePolicy={"permanent": [3]})]},
    "elastic": {"replicatedJobs": [rjob("a", elastic={"min": 1, "max": 2})]},
    "spare": {"replicatedJobs": [rjob("a"), rjob("b", spareFor="a")]},
    "theirs": {"managedBy": "example.com/other", "activeDeadlineSeconds": 60},
    "ended": {"activeDeadlineSeconds": 60},
    "robbed": {},
    "whole": {},
}
ALIKE = {"spec.successPolicy.unit": "Job", "spec.failurePolicy.failOn": "JobFailed"}
"""Dropped values that change nothing: the Go JobSet does the same without them."""

ZEROS = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
COMPLETED = {"replicatedJobsStatus": [{"name": "workers", **ZEROS, "completedIndexes": "0"}]}


@dataclass
class World:
    """The sets before, under and after the Go CRD, by name, and the paths that the check named before."""

    before: dict[str, JSON]
    named: dict[str, set[str]] = field(default_factory=dict)
    under: dict[str, JSON] = field(default_factory=dict)
    after: dict[str, JSON] = field(default_factory=dict)


@pytest.fixture(scope="module")
def world(own_cluster: OwnCluster) -> Iterator[World]:
    with own_cluster(ClusterSpec(name="back", profile="api")) as cluster:
        answered(201, cluster, "POST", DEFINITIONS, crd())
        wait_for(lambda: request(cluster, "GET", PATH)[0] == 200, what="the CRD to be served")
        create_all(cluster)
        world = World(by_name(listed(cluster, PATH)))
        out = io.StringIO()
        assert run(Options(output="json", kubeconfig=str(cluster.kubeconfig)), out, io.StringIO()) == 1
        for each in json.loads(out.getvalue())["concerned"]:
            assert each["kind"] == "JobSet"
            world.named.setdefault(each["name"], set()).add(each["path"])
        world.under = install(cluster, go_crd(), known=False)
        touch = {"metadata": {"labels": {"touched": "true"}}}
        answered(200, cluster, "PATCH", f"{PATH}/deadline", touch, MERGE)
        world.after = install(cluster, crd(), known=True)
        yield world


def answered(code: int, cluster: Cluster, method: str, path: str, *rest: Any) -> JSON:
    status, body = request(cluster, method, path, *rest)
    assert status == code, body
    return body  # type: ignore[no-any-return]


def create_all(cluster: Cluster) -> None:
    """The corpus and `OURS`; one of these has finished, and in two a Job has completed that is there or not."""
    bodies = {
        f"corpus-{i}": engine(FeatureGates()).findings_about_new(c.manifest).object for i, c in enumerate(cases("good"))
    }
    bodies |= {name: stored(jobset(name=name, **spec)) for name, spec in OURS.items()}
    for name, body in bodies.items():
        answered(201, cluster, "POST", PATH, {**body, "metadata": {"name": name}})
    for name, status in {"ended": {"terminalState": "Failed"}, "robbed": COMPLETED, "whole": COMPLETED}.items():
        answered(200, cluster, "PATCH", f"{PATH}/{name}/status", {"status": {"restarts": 0, **status}}, MERGE)
    meta = answered(200, cluster, "GET", f"{PATH}/whole")["metadata"]
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "whole", "uid": meta["uid"]}
    labels = {"jobset.sigs.k8s.io/jobset-name": "whole"}
    job = {
        "metadata": {"name": "whole-workers-0", "labels": labels, "ownerReferences": [{**owner, "controller": True}]},
        "spec": stored(jobset())["spec"]["replicatedJobs"][0]["template"]["spec"],
    }
    answered(201, cluster, "POST", "/apis/batch/v1/namespaces/default/jobs", job)


def by_name(sets: list[JSON]) -> dict[str, JSON]:
    return {item["metadata"]["name"]: item for item in sets}


def install(cluster: Cluster, definition: JSON, *, known: bool) -> dict[str, JSON]:
    """Replace the CRD; gives the sets once it is in force. `known`: whether it has the field `executionPolicy`.

    While the API server changes over it refuses requests now and then.
    """
    path = f"{DEFINITIONS}/jobsets.jobset.x-k8s.io"
    status, answer = replace_object(partial(request, cluster), path, lambda _: definition)
    assert status == 200, answer
    probe = {**stored(jobset(**OURS["stages"])), "metadata": {"name": "probe"}}

    def in_force() -> dict[str, JSON] | None:
        if request(cluster, "POST", f"{PATH}?dryRun=All&fieldValidation=Strict", probe)[0] != (201 if known else 400):
            return None
        status, listing = request(cluster, "GET", PATH)
        found = by_name(listing["items"]) if status == 200 else {}
        return found if found and ("executionPolicy" in found["stages"]["spec"]) == known else None

    return wait_for(in_force, what="the new CRD") or {}


def lost(before: Any, after: Any, path: str = "spec") -> Iterator[tuple[str, Any]]:
    """What is in the first and not in the second: the outermost paths, with what was there."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in after:
                yield from lost(value, after[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}", value
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (had, has) in enumerate(zip(before, after, strict=True)):
            yield from lost(had, has, f"{path}[{i}]")
    else:
        assert before == after, path


def acts(path: str, value: Any) -> bool:
    """Whether what is dropped there makes a difference to the Go JobSet."""
    if path == "spec.executionPolicy":
        return bool(value["executionPolicyOrder"] == "InOrder")
    return ALIKE.get(path) != value


def test_the_check_names_what_the_api_server_drops_and_only_that(world):
    for name, had in world.before.items():
        if "terminalState" in had.get("status", {}) or had["spec"].get("managedBy", CONTROLLER_NAME) != CONTROLLER_NAME:
            assert name not in world.named
            continue
        dropped = lost(had["spec"], world.under[name]["spec"])
        expected = {path for path, value in dropped if acts(path, value)}
        rules = items(had, "spec", "failurePolicy", "rules")
        expected |= {
            f"spec.failurePolicy.rules[{i}].action" for i, rule in enumerate(rules) if rule["action"] not in ACTIONS
        }
        assert {path for path in world.named.get(name, ()) if path.startswith("spec.")} == expected, name


def test_every_field_was_tried(world):
    tried = {path for name in OURS for path in world.named.get(name, ())}
    assert {path.rpartition(".")[2] for path in tried} == {
        *(parts[-1] for parts in OWN_FIELDS),
        "action",
        "completedIndexes",
    }
    assert len(world.before) > 60
    assert {name for name in OURS if name not in world.named} == {
        "any-order",
        "unit",
        "late",
        "theirs",
        "ended",
        "whole",
    }


def test_a_set_whose_completed_job_is_gone_is_named(world):
    assert world.named["robbed"] == {"status.replicatedJobsStatus[0].completedIndexes"}
    [entry] = world.under["robbed"]["status"]["replicatedJobsStatus"]
    assert entry == {"name": "workers", **ZEROS}


def test_a_field_comes_back_with_our_crd_unless_the_set_was_written_meanwhile(world):
    assert "activeDeadlineSeconds" not in world.after["deadline"]["spec"]
    for name, had in world.before.items():
        if name != "deadline":
            assert world.after[name]["spec"] == had["spec"], name
            assert world.after[name]["metadata"]["generation"] == had["metadata"]["generation"]
