"""The CRD takes all that the Go JobSet's takes, and stores the same: on two real API servers.

One has the Go JobSet's CRD; the other had it, too, got the corpus, and was then upgraded. No webhooks on either. The one
exception is the limit of `replicas`: more is refused, but what was stored with more can still be changed elsewhere.
"""

import contextlib
import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from api.features import FeatureGates
from api.keys import MAX_REPLICAS
from app.engine import engine
from dev.cluster.rest import Connection
from dev.cluster.spec import ClusterSpec
from kube.model.meta import MAX_INT32
from manifests import crd
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import MERGE, OwnCluster, replace_object, request, wait_for
from tests.support.corpus.go_crd import go_crd, without_our_fields
from tests.support.corpus.manifests import Case, cases
from tests.support.corpus.mutations import mutated, training

JSON = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH = JOBSETS.format("default")
STRICT = "fieldValidation=Strict"
CORPUS = cases("good") + cases("bad")
HUGE = "more replicas than are allowed now"
REPLICAS = "spec.replicatedJobs[0].replicas"
NEW_FIELD = {"executionPolicy": {"sequentialReplicatedJobs": 1}}


@dataclass
class World:
    """An upgraded server, what it answered and stored with the old CRD, and what it gave back after the upgrade."""

    new: Connection
    answers: dict[str, tuple[int, JSON]] = field(default_factory=dict)
    before: dict[str, JSON] = field(default_factory=dict)
    after: dict[str, JSON] = field(default_factory=dict)

    def answer_of_old(self, body: JSON) -> tuple[int, JSON]:
        """What the server answered to one of `probes()` with the old CRD."""
        return self.answers[json.dumps(body)]


@contextlib.contextmanager
def server_with_old_crd(own_cluster: OwnCluster, name: str) -> Iterator[Connection]:
    with own_cluster(ClusterSpec(name=name, profile="api")) as cluster:
        status, answer = request(cluster, "POST", DEFINITIONS, go_crd())
        assert status == 201, answer
        wait_for(lambda: request(cluster, "GET", PATH)[0] == 200, what="the CRD to be served")
        with cluster.connect() as connection:
            yield connection


@pytest.fixture(scope="module")
def old(own_cluster: OwnCluster) -> Iterator[Connection]:
    """A server that keeps the old CRD."""
    with server_with_old_crd(own_cluster, "before") as connection:
        yield connection


@pytest.fixture(scope="module")
def world(own_cluster: OwnCluster) -> Iterator[World]:
    with server_with_old_crd(own_cluster, "upgraded") as connection:
        world = World(connection)
        world.answers = {json.dumps(body): dry_run(world.new, body) for body in probes()}
        world.before = {case.id: store(world.new, case, f"js-{i}") for i, case in enumerate(CORPUS)}
        status, world.before[HUGE] = world.new.request("POST", PATH, with_replicas(MAX_INT32))
        assert status == 201
        upgrade(world.new)
        world.after = {item["metadata"]["annotations"]["case"]: item for item in stored(world.new)}
        yield world


def probes() -> Iterator[JSON]:
    """The bodies that are tried with the old CRD and with the new one."""
    yield jobset(NEW_FIELD)
    yield with_replicas(MAX_REPLICAS + 1)
    yield from corpus_probes()


def corpus_probes() -> Iterator[JSON]:
    """The manifests of the corpus as they are, and with the defaults of the mutating webhook."""
    for case in CORPUS:
        for body in (case.manifest, engine(FeatureGates(case.gates)).findings_about_new(case.manifest).object):
            yield {**body, "metadata": {"name": "probe"}}


def store(api: Connection, case: Case, name: str) -> JSON:
    """Create it under a name of its own, as the mutating webhook would pass it on; what is refused is not an object."""
    body = engine(FeatureGates()).findings_about_new(case.manifest).object if not case.errors else case.manifest
    body = {**body, "metadata": {"name": name, "annotations": {"case": case.id}}}
    status, answer = api.request("POST", f"{PATH}?{STRICT}", body)
    return answer if status == 201 else {}


def upgrade(api: Connection) -> None:
    path = f"{DEFINITIONS}/jobsets.jobset.x-k8s.io"
    status, answer = replace_object(api.request, path, lambda _: crd())
    assert status == 200, answer
    probe = jobset(NEW_FIELD)

    # While the API server changes over it refuses for a moment, now and then.
    def settled() -> bool:
        return dry_run(api, probe)[0] == 201 and api.request("GET", PATH)[0] == 200

    wait_for(lambda: all(settled() for _ in range(3)), what="the new CRD")


def stored(api: Connection) -> list[JSON]:
    """All JobSets, as soon as the API server lists them: it may refuse once more after `upgrade` saw it answer."""
    answers: list[JSON] = []

    def listed() -> bool:
        status, answer = api.request("GET", PATH)
        answers.append(answer)
        return status == 200

    wait_for(listed, what="the list of JobSets after the upgrade", last=lambda: answers[-1])
    items: list[JSON] = answers[-1]["items"]
    return items


def dry_run(api: Connection, body: JSON) -> tuple[int, JSON]:
    status, answer = api.request("POST", f"{PATH}?dryRun=All&{STRICT}", body)
    return status, answer


def jobset(spec: JSON) -> JSON:
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "probe"}, "spec": spec}


def with_replicas(count: int) -> JSON:
    body = before_training()
    body["spec"]["replicatedJobs"][0]["replicas"] = count
    return {**body, "metadata": {"name": "huge", "annotations": {"case": HUGE}}}


def before_training() -> JSON:
    return without_our_fields(training())


def test_the_old_server_does_not_know_what_is_new(world):
    assert world.answer_of_old(jobset(NEW_FIELD))[0] == 400
    assert dry_run(world.new, jobset(NEW_FIELD))[0] == 201


def test_what_was_stored_is_read_the_same_after_the_upgrade(world):
    stored = {name: body for name, body in world.before.items() if body}
    assert len(stored) >= 120
    assert world.after.keys() == stored.keys()
    for name, body in stored.items():
        assert world.after[name]["spec"] == body["spec"], name
        assert world.after[name]["metadata"]["generation"] == 1


def test_what_was_stored_may_get_other_labels_after_the_upgrade(world):
    for name, body in world.after.items():
        patch = {"metadata": {"labels": {"upgraded": "true"}}}
        path = f"{PATH}/{body['metadata']['name']}?{STRICT}"
        status, answer = world.new.request("PATCH", path, patch, MERGE)
        assert (status, answer.get("spec")) == (200, body["spec"]), (name, answer)


def test_so_many_replicas_are_allowed_now(world):
    assert world.answer_of_old(with_replicas(MAX_REPLICAS + 1))[0] == 201
    [cause] = dry_run(world.new, {**with_replicas(MAX_REPLICAS + 1), "metadata": {"name": "probe"}})[1]["details"][
        "causes"
    ]
    assert cause["field"] == REPLICAS
    assert f"should be less than or equal to {MAX_REPLICAS}" in cause["message"]
    assert dry_run(world.new, {**with_replicas(MAX_REPLICAS), "metadata": {"name": "probe"}})[0] == 201


def test_what_was_stored_with_more_replicas_can_be_changed_elsewhere(world):
    def patched(place: str, patch: Any, kind: str = "merge-patch+json") -> int:
        return world.new.request("PATCH", f"{PATH}/huge{place}?dryRun=All", patch, f"application/{kind}")[0]

    assert patched("/status", {"status": {"restarts": 1}}) == 200
    assert patched("", {"spec": {"suspend": False}}) == 200
    replicas = {"op": "replace", "path": "/spec/replicatedJobs/0/replicas", "value": MAX_INT32 - 1}
    assert patched("", [replicas], "json-patch+json") == 422
    assert patched("", [{**replicas, "value": MAX_REPLICAS}], "json-patch+json") == 200


def test_what_was_accepted_is_accepted_and_stored_alike(world):
    """Of the bad manifests, too: the schema alone takes many of them."""
    assert sum(is_taken_alike(world, body, *world.answer_of_old(body)) for body in corpus_probes()) >= 200


@pytest.mark.slow
def test_the_same_refusals_for_what_has_no_new_field(world, old):
    """What the old schema refused for another reason than a new field is refused as before."""
    for case in CORPUS:
        body = {**without_our_fields(case.manifest), "metadata": {"name": "probe"}}
        (status, before), (again, after) = dry_run(old, copy.deepcopy(body)), dry_run(world.new, body)
        assert status == again, (case.id, after)
        if status == 422:
            assert places(after) - {REPLICAS} == places(before) - {REPLICAS}, case.id


def places(answer: JSON) -> set[str]:
    return {cause["field"] for cause in answer["details"]["causes"]}


@pytest.mark.no_cover
@settings(max_examples=200, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mutated(good=before_training))
@pytest.mark.slow
def test_random_changes_of_a_jobset_without_the_new_fields(world, old, obj):
    is_taken_alike(world, obj, *dry_run(old, copy.deepcopy(obj)))


def is_taken_alike(world: World, body: JSON, status: int, answer: JSON) -> bool:
    """Whether the old server takes it, as it answered. The new one then has to take it for the same."""
    if status == 201:
        again, new = dry_run(world.new, copy.deepcopy(body))
        assert (again, new.get("spec")) == (201, answer.get("spec")), new
    return status == 201
