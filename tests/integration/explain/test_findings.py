"""`jobset explain` against a real API server: what it reads and what it reports."""

import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import yaml

from api.gang_objects import build_group
from api.gangs import forest
from api.jobset import JobSet
from dev.cluster import audit
from tests.support.cluster.requests import request
from tests.support.explain.objects import MOMENT, causes, exclusive, job_of, leader_of, pod_of
from tests.support.explain.world import JOBS, NO_NODE, World, explain, post, report
from tests.support.objects.jobsets import jobset, rjob


def test_a_leader_that_waits_for_a_rack(waiting: World):
    code, out, err = explain(waiting.cluster.kubeconfig, waiting.namespace)
    assert (code, err) == (0, "")
    first, job, leader, domains, fix = out.splitlines()
    day = "" if datetime.now(UTC).date() == MOMENT.date() else f"{MOMENT.date()} "
    begin = f"JobSet {waiting.namespace}/train: waits, 1 of 2 Jobs ready or done (since {day}14:05:03Z, "
    assert first.startswith(begin)
    assert job == "└ Job train-workers-1: waits for a rack of its own"
    assert leader == f"  └ leader pod train-workers-1-0: not scheduled: {NO_NODE}; 2 followers wait for it"
    names = f"{waiting.namespace}/other-workers-0, {waiting.namespace}/train-workers-0"
    assert domains == f"    └ 2 of 2 racks hold Jobs of equal priority (0): {names}"
    assert fix.startswith("      to fix: wait until one ends, add a rack, or give this JobSet a higher priority")


def test_as_a_process_json_and_yaml_say_the_same(waiting: World):
    command = [sys.executable, "-m", "cli", "explain", "train", "-n", waiting.namespace]
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


def test_without_a_namespace_that_of_the_context_is_used(waiting: World, tmp_path: Path):
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
    start = audit.log_size(world.cluster.audit_log)
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


GANG = {"schedulingPolicy": {"gang": {}}, "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}]}


def test_a_namespace_that_is_being_deleted(world: World):
    js = world.jobset(jobset(rjob()))
    world.warning(js, "JobCreationFailed", "unable to create new content because it is being terminated")
    assert causes(report(world.user("rightless"), world.namespace)) == ["missing", "refused"]
    code, _ = request(world.cluster, "DELETE", f"/api/v1/namespaces/{world.namespace}")
    assert code == 200
    body = report(world.cluster.kubeconfig, world.namespace)
    assert (body["state"], causes(body)) == ("is being deleted", ["namespace-deleted"])


@pytest.fixture
def gang(world: World) -> World:
    """A gang of one Job, whose pod the scheduler has refused; its group is there."""
    js = world.jobset(jobset(rjob(), scheduling=GANG))
    typed = msgspec.convert(js, JobSet)
    wanted = forest(typed)
    assert wanted is not None
    for group, parent in wanted.roots[0].with_parents():
        body = build_group(typed, wanted, group, parent, group.gang_size)
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
