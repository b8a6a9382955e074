"""`jobset explain` against a real API server: what it reads, as whom, and what it says when it may not."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from api import keys
from api.gang_objects import build_group
from api.gangs import forest
from api.jobset import JobSet
from app import local
from app.explain.facts import LEASE
from app.explain.run import Options, run
from devcluster import audit
from devcluster.cluster import Cluster
from manifests import NAMESPACE
from tests.support.cluster import new_namespace, request
from tests.support.explained import MOMENT, RACK, causes, exclusive, job_of, leader_of, pod_of
from tests.support.jobsets import jobset, rjob

JSON = dict[str, Any]
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
PODS = "/api/v1/namespaces/{}/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
NO_NODE = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules"
READS = {
    "jobsets": ("jobset.x-k8s.io", ["get", "list"]),
    "jobs": ("batch", ["get", "list"]),
    "pods": ("", ["list"]),
    "events": ("events.k8s.io", ["list"]),
}


@pytest.fixture
def cluster(jobset_server: Cluster) -> Iterator[Cluster]:
    """With the lease of a manager that has just renewed it."""
    request(jobset_server, "DELETE", f"{LEASES}/{LEASE}")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
    post(jobset_server, LEASES, {"metadata": {"name": LEASE}, "spec": spec})
    yield jobset_server
    request(jobset_server, "DELETE", f"{LEASES}/{LEASE}")


def explain(kubeconfig: Path, namespace: str, name: str = "train", **more: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = run(Options(name=name, namespace=namespace, kubeconfig=str(kubeconfig), **more), out, err)
    return code, out.getvalue(), err.getvalue()


def report(kubeconfig: Path, namespace: str) -> JSON:
    code, out, err = explain(kubeconfig, namespace, output="json")
    assert (code, err) == (0, "")
    body: JSON = json.loads(out)
    return body


def post(cluster: Cluster, path: str, body: JSON) -> JSON:
    """Create it, status included."""
    code, made = request(cluster, "POST", path, body)
    assert code == 201, made
    if "status" in body:
        here = f"{path}/{made['metadata']['name']}/status"
        code, made = request(cluster, "PATCH", here, {"status": body["status"]}, MERGE)
        assert code == 200, made
    return made


class World:
    """A namespace with JobSets whose Jobs and pods are made by hand: nobody else acts here."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.left: list[str] = []

    def jobset(self, body: JSON) -> JSON:
        body["metadata"]["namespace"] = self.namespace
        return post(self.cluster, JOBSETS.format(self.namespace), body)

    def job(self, js: JSON, index: int, **status: Any) -> JSON:
        return post(self.cluster, JOBS.format(self.namespace), {**job_of(js, index), "status": status})

    def pod(self, body: JSON) -> JSON:
        return post(self.cluster, PODS.format(self.namespace), body)

    def warning(self, about: JSON, reason: str, note: str) -> None:
        meta = about["metadata"]
        regarding = {key: meta[key] for key in ("name", "namespace", "uid")}
        event = {
            "metadata": {"generateName": "told-"},
            "regarding": {"kind": about["kind"], "apiVersion": about["apiVersion"], **regarding},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning",
            "reason": reason,
            "note": note,
            "action": "Test",
            "reportingController": "test.dev/tests",
            "reportingInstance": "tests",
        }
        post(self.cluster, EVENTS.format(self.namespace), event)

    def user(self, prefix: str, *, without: str = "", nodes: bool = False, everywhere: bool = False) -> Path:
        """A kubeconfig of somebody who may read this namespace, but for one resource; and, if told, more."""
        name = f"{prefix}-{self.namespace}"
        rules = [
            {"apiGroups": [group], "resources": [resource], "verbs": verbs}
            for resource, (group, verbs) in READS.items()
            if resource != without
        ]
        subject = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]
        role, here = {"metadata": {"name": name}, "rules": rules}, f"{RBAC}/namespaces/{self.namespace}"
        post(self.cluster, f"{here}/roles", role)
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        post(self.cluster, f"{here}/rolebindings", {"metadata": {"name": name}, "subjects": subject, "roleRef": ref})
        more = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}] if nodes else []
        more += [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}] if everywhere else []
        if more:
            self.left = [f"{RBAC}/clusterroles/{name}", f"{RBAC}/clusterrolebindings/{name}"]
            post(self.cluster, f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": more})
            ref = {**ref, "kind": "ClusterRole"}
            post(
                self.cluster,
                f"{RBAC}/clusterrolebindings",
                {"metadata": {"name": name}, "subjects": subject, "roleRef": ref},
            )
        return self.cluster.kubeconfig_for(name)


@pytest.fixture
def world(cluster: Cluster, namespace: str) -> Iterator[World]:
    made = World(cluster, namespace)
    yield made
    for path in made.left:
        request(cluster, "DELETE", path)


@pytest.fixture
def racks(cluster: Cluster) -> Iterator[list[str]]:
    """Two nodes, each a rack of its own."""
    names = ["explained-0", "explained-1"]
    for number, name in enumerate(names):
        post(cluster, "/api/v1/nodes", {"metadata": {"name": name, "labels": {RACK: f"rack-{number}"}}})
    yield names
    for name in names:
        request(cluster, "DELETE", f"/api/v1/nodes/{name}")


@pytest.fixture
def waiting(world: World, racks: list[str]) -> World:
    """Two racks: one holds `other`, one holds a Job of `train` itself, whose second leader waits."""
    other = world.jobset(jobset(exclusive(), name="other"))
    train = world.jobset(jobset(exclusive(replicas=2, parallelism=3, completions=3)))
    world.pod(leader_of(world.job(other, 0, active=1, ready=1), node=racks[0]))
    world.pod(leader_of(world.job(train, 0, active=3, ready=3), node=racks[1]))
    last = world.job(train, 1, active=3, ready=0)
    world.pod(leader_of(last, unscheduled=NO_NODE))
    for index in (1, 2):
        world.pod(pod_of(last, index, gates=(keys.PLACEMENT_GATE,), labels={keys.AWAITS_LEADER: "true"}))
    return world


def test_a_leader_that_waits_for_a_rack(waiting: World):
    code, out, err = explain(waiting.cluster.kubeconfig, waiting.namespace)
    assert (code, err) == (0, "")
    first, job, leader, domains, way_out = out.splitlines()
    day = "" if datetime.now(UTC).date() == MOMENT.date() else f"{MOMENT.date()} "
    begin = f"JobSet {waiting.namespace}/train: waits, 1 of 2 Jobs ready or done (since {day}14:05:03Z, "
    assert first.startswith(begin)
    assert job == "└ Job train-workers-1: waits for a rack of its own"
    assert leader == f"  └ leader pod train-workers-1-0: not scheduled: {NO_NODE}; 2 followers wait for it"
    names = f"{waiting.namespace}/other-workers-0, {waiting.namespace}/train-workers-0"
    assert domains == f"    └ 2 of 2 racks hold Jobs of equal priority (0): {names}"
    assert way_out.startswith("      way out: wait until one ends, add a rack, or give this JobSet a higher priority")


def test_as_a_process_json_and_yaml_say_the_same(waiting: World):
    command = [sys.executable, "-m", "app", "explain", "train", "-n", waiting.namespace]
    command += [f"--kubeconfig={waiting.cluster.kubeconfig}", "-o"]
    texts = []
    for form in ("json", "yaml"):
        done = subprocess.run([*command, form], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 (ourselves)
        assert (done.returncode, done.stderr) == (0, "")
        texts.append(done.stdout)
    body, same = json.loads(texts[0]), yaml.safe_load(texts[1])
    assert (body["namespace"], body["name"], body["state"], body["level"]) == (
        waiting.namespace, "train", "waits", "waits",
    )  # fmt: skip
    assert causes(body) == ["leader-waits", "leader-unscheduled", "equal-priority"]
    assert body["notLookedAt"] == []
    assert {**body, "time": ""} == {**same, "time": ""}


def test_the_namespace_of_the_context_is_meant_where_none_is_named(waiting: World, tmp_path: Path):
    config = yaml.safe_load(waiting.cluster.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = waiting.namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    assert explain(kubeconfig, "")[1].startswith(f"JobSet {waiting.namespace}/train: ")


def test_forty_jobs_cost_a_dozen_calls(world: World, racks: list[str]):
    train = world.jobset(jobset(exclusive(replicas=40)))
    for index in range(40):
        job = world.job(train, index, active=1, ready=0)
        world.pod(leader_of(job, unscheduled=NO_NODE))
    kubeconfig = world.cluster.kubeconfig_for("counted", ["system:masters"])
    start = audit.size(world.cluster.audit_log)
    code, out, _ = explain(kubeconfig, world.namespace)
    assert code == 0
    assert "39 more Jobs (train-workers-1 … train-workers-39): likewise" in out
    made = Counter(
        (call.verb, call.resource)
        for call in audit.calls(world.cluster.audit_log, start, "counted")
        if call.user == "counted"
    )
    assert made == {
        ("get", "jobsets"): 1,
        ("list", "jobs"): 1,
        ("list", "events"): 1,
        ("get", "leases"): 1,
        ("list", "pods"): 5,
        ("list", "nodes"): 1,
    }


def test_warnings_of_the_jobset_and_of_its_jobs(world: World):
    train = world.jobset(jobset(rjob(replicas=2)))
    job = world.job(train, 0)
    world.warning(job, "FailedCreate", 'Error creating: pods "x" is forbidden: exceeded quota: gpus')
    world.warning(train, "JobCreationFailed", 'job "train-workers-1" creation failed with error: no')
    code, out, _ = explain(world.cluster.kubeconfig, world.namespace)
    assert code == 0
    assert "Job train-workers-0: lacks 1 of 1 pod: FailedCreate: Error creating: pods" in out
    assert "1 Job does not exist (yet): train-workers-1" in out
    assert 'job "train-workers-1" creation failed with error: no' in out


def test_a_name_that_is_taken(world: World):
    world.jobset(jobset())
    body = {"metadata": {"name": "train-workers-0"}, "spec": job_of(world.jobset(jobset(name="b")), 0)["spec"]}
    post(world.cluster, JOBS.format(world.namespace), body)
    assert "a Job of that name belongs to nobody" in explain(world.cluster.kubeconfig, world.namespace)[1]


def test_a_container_that_does_not_stay_up(world: World):
    job = world.job(world.jobset(jobset(rjob(parallelism=2, completions=2))), 0, active=2, ready=1)
    waits = {"reason": "CrashLoopBackOff", "message": "back-off"}
    crash = {"name": "main", "ready": False, "restartCount": 7, "image": "busybox", "imageID": ""}
    world.pod(leader_of(job, node="somewhere"))
    world.pod(pod_of(job, 1, node="somewhere", containers=[{**crash, "state": {"waiting": waits}}]))
    out = explain(world.cluster.kubeconfig, world.namespace)[1]
    assert "pod train-workers-0-1 is not ready: container main: CrashLoopBackOff, restarted 7 times: back-off" in out


def test_a_stale_lease_is_told(world: World):
    world.jobset(jobset())
    patch = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}}
    code, answer = request(world.cluster, "PATCH", f"{LEASES}/{LEASE}", patch, MERGE)
    assert code == 200, answer
    assert "no manager holds the lease" in explain(world.cluster.kubeconfig, world.namespace)[1]


def test_without_the_right_to_read_nodes(waiting: World):
    body = report(waiting.user("nodeless", everywhere=True), waiting.namespace)
    assert causes(body) == ["leader-waits", "leader-unscheduled"]
    assert body["notLookedAt"] == [
        f"the manager: you may not get leases in namespace {NAMESPACE}",
        "nodes: you may not list nodes, so which values of rack there are is not known",
    ]


def test_without_the_right_to_read_pods_of_others(waiting: World):
    body = report(waiting.user("lonely", nodes=True), waiting.namespace)
    assert causes(body) == ["leader-waits", "leader-unscheduled", "domains"]
    assert any("pods of other namespaces: you may not list them" in text for text in body["notLookedAt"])


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("pods", ["followers-gated", "not-ready"]),
        ("jobs", ["status"]),
        ("events", ["leader-waits", "leader-unscheduled"]),
    ],
)
def test_without_the_right_to_read_something_it_says_so_and_goes_on(waiting: World, resource: str, expected: list[str]):
    kubeconfig = waiting.user(f"less-{resource}", without=resource)
    body = report(kubeconfig, waiting.namespace)
    assert set(causes(body)) & {*expected}, body
    assert any(f"you may not list {resource}" in text for text in body["notLookedAt"])
    code, out, _ = explain(kubeconfig, waiting.namespace)
    assert code == 0
    assert "not looked at: " in out.splitlines()[-1]


GANG = {"schedulingPolicy": {"gang": {}}, "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}]}


@pytest.fixture
def gang(world: World) -> World:
    """A gang of one Job, whose pod the scheduler has refused; its group is there."""
    js = world.jobset(jobset(rjob(), scheduling=GANG))
    typed = msgspec.convert(js, JobSet)
    wanted = forest(typed)
    assert wanted is not None
    for group, parent in wanted.roots[0].with_parents():
        body = build_group(typed, wanted, group, parent, group.gang)
        path = f"/apis/{body['apiVersion']}/namespaces/{world.namespace}/{body['kind'].lower()}s"
        post(world.cluster, path, body)
    job = job_of(js, 0)
    [leaf] = wanted.roots[0].children
    job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": leaf.name}
    stored = post(world.cluster, JOBS.format(world.namespace), {**job, "status": {"active": 1, "ready": 0}})
    world.pod(pod_of(stored, unscheduled=NO_NODE))
    return world


def test_groups_of_a_gang_are_read(gang: World):
    body = report(gang.cluster.kubeconfig, gang.namespace)
    assert causes(body) == ["gang-waits", "group-waits", "scheduler-said"]
    assert body["notLookedAt"] == []


def test_without_the_right_to_read_groups(gang: World):
    body = report(gang.user("groupless", everywhere=True), gang.namespace)
    assert causes(body) == ["unscheduled"]
    unseen = f"groups: you may not list podgroups.scheduling.k8s.io in namespace {gang.namespace}"
    assert unseen in body["notLookedAt"]


def test_without_any_right(waiting: World):
    code, out, err = explain(waiting.cluster.kubeconfig_for("nobody-in-particular"), waiting.namespace)
    assert (code, out) == (2, "")
    assert "403 Forbidden" in err
    assert "ask for the right to get jobsets" in err


def test_a_name_that_nobody_has(world: World):
    code, out, err = explain(world.cluster.kubeconfig, world.namespace, "tarin")
    assert (code, out) == (1, "")
    assert err == f"jobset explain: there is no JobSet tarin in namespace {world.namespace}: there is none at all\n"
    world.jobset(jobset())
    world.jobset(jobset(name="other"))
    code, _, err = explain(world.cluster.kubeconfig, world.namespace, "tarin")
    assert code == 1
    assert 'did you mean "train"? there are: "other", "train"' in err


def test_a_name_of_another_namespace(world: World):
    world.jobset(jobset(name=f"only-{world.namespace}"))
    elsewhere = new_namespace(world.cluster)
    code, _, err = explain(world.cluster.kubeconfig, elsewhere, f"only-{world.namespace}")
    request(world.cluster, "DELETE", f"/api/v1/namespaces/{elsewhere}")
    assert code == 1
    assert f"but in {world.namespace}: use -n {world.namespace}" in err


@pytest.mark.parametrize("name", ["a/b", "Train", "../x", ""])
def test_what_is_no_name_is_not_sent(tmp_path: Path, name: str):
    code, _, err = explain(tmp_path / "none", "default", name)
    assert code == 2
    assert "is no name" in err


def test_a_broken_kubeconfig(tmp_path: Path):
    broken = tmp_path / "kubeconfig"
    code, _, err = explain(broken, "default")
    assert (code, "no such file" in err) == (2, True)
    broken.write_text("contexts: [")
    code, _, err = explain(broken, "default")
    assert (code, "not YAML" in err) == (2, True)


def test_a_context_that_is_not_there(cluster: Cluster):
    code, _, err = explain(cluster.kubeconfig, "default", context="mars")
    assert (code, "no such context" in err) == (2, True)


def test_a_cluster_that_does_not_answer(cluster: Cluster, tmp_path: Path):
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{local.free_port()}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    code, out, err = explain(kubeconfig, "default")
    assert (code, out) == (2, "")
    assert err.startswith("jobset explain: ")


def test_a_cluster_without_jobsets(api_server: Cluster):
    code, _, err = explain(api_server.kubeconfig, "default")
    assert code == 2
    assert "the cluster does not serve JobSets" in err
