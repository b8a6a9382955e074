"""`jobset render`: the very objects that the controller would create, written so that every reader reads them alike."""

import io
import json
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
import yaml

from api.features import FeatureGates
from api.gang_api import Served
from authoring.rendering import as_stored, by_stage
from cli.check.render import Options, run
from controllers.planning.actions import CreateClaim, CreateGroup, CreateJob, CreateService
from controllers.planning.observed import KnownGroups, Observed
from controllers.planning.plan import plan
from tests.cli.conftest import Command
from tests.support.objects.jobsets import jobset, rjob, stored

GATES = FeatureGates({})


@pytest.fixture
def render(command: Command) -> Command:
    return partial(command, "render")


MOUNT = {"containers": [{"name": "main", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
FULL = jobset(
    rjob("driver", pod=MOUNT),
    rjob("workers", replicas=3, parallelism=2, completions=2, groupName="g", pod=MOUNT),
    coordinator={"replicatedJob": "driver"},
    network={"subdomain": "net"},
    volumeClaimPolicies=[{"templates": [CLAIM], "retentionPolicy": {"whenDeleted": "Retain"}}],
)  # fmt: skip


def test_each_stage_is_marked_and_claims_come_with_the_first_that_mounts_them(render, write):
    results = {**CLAIM, "metadata": {"name": "results"}}
    both = [
        {**MOUNT["containers"][0], "volumeMounts": [{"name": n, "mountPath": f"/{n}"} for n in ("data", "results")]}
    ]
    js = jobset(
        rjob("init", pod=MOUNT),
        rjob("post", pod={"containers": both}),
        rjob("report"),
        executionPolicy={"executionPolicyOrder": "InOrder", "sequentialReplicatedJobs": 1},
        volumeClaimPolicies=[{"templates": [CLAIM, results], "retentionPolicy": {"whenDeleted": "Retain"}}],
    )
    code, out, err = render("-f", write(js))
    assert (code, err) == (0, "")
    reported = [line for line in out.splitlines() if line.startswith(("#", "  name: "))]
    assert reported == [
        "# train: stage 1 of 2: init",
        "  name: train",
        "  name: data-train",
        "  name: train-init-0",
        "# train: stage 2 of 2: post, report",
        "  name: results-train",
        "  name: train-post-0",
        "  name: train-report-0",
    ]
    code, out, _ = render("-f", write(js), "-o", "json")
    assert [item["metadata"]["name"] for item in json.loads(out)["items"]] == [
        line[8:] for line in reported if line[0] != "#"
    ]


@pytest.mark.parametrize("gates", [GATES, FeatureGates({"RestartJob": True}), FeatureGates({"AllAlpha": True})])
@pytest.mark.parametrize("suspend", [True, False])
def test_the_bodies_are_those_that_the_controller_plans(gates, suspend):
    full = stored(FULL)
    js = as_stored({**full, "spec": {**full["spec"], "suspend": suspend}}, gates)
    made = plan(Observed(js, (), service=None, claims=frozenset(), now="2026-01-01T00:00:00Z"), gates)
    assert all(isinstance(action, CreateService | CreateClaim | CreateJob) for action in made.actions)
    bodies = [action.build_body() if isinstance(action, CreateJob) else action.body for action in made.actions]
    assert [body for _, body in by_stage(js, gates)] == bodies
    labels = bodies[-1]["metadata"]["labels"]
    assert ("jobset.sigs.k8s.io/job-restart-attempt" in labels) == gates["RestartJob"]


def test_json_is_a_list(render, write):
    code, out, _ = render("-f", write(FULL), "-o", "json")
    listed = json.loads(out)
    assert (code, listed["apiVersion"], listed["kind"], len(listed["items"])) == (0, "v1", "List", 6)
    as_yaml = list(yaml.safe_load_all(render("-f", "f.yaml")[1]))
    assert listed["items"] == as_yaml


def test_a_set_without_jobs_is_an_empty_list(render, write):
    body = jobset(rjob(replicas=0), network={"enableDNSHostnames": False})
    assert json.loads(render("-f", write(body), "-o", "json")[1])["items"] == []


def test_faults_are_reported_and_nothing_is_rendered(render, write):
    name = write(yaml.safe_dump(jobset()) + "---\n" + yaml.safe_dump(jobset(rjob(replicas=-1), name="b")))
    code, out, err = render("-f", name)
    assert (code, out) == (1, "")
    first, line, mark, summary = err.splitlines()
    assert first.startswith("f.yaml:")
    assert "error: JobSet default/b: spec.replicatedJobs[0].replicas: Invalid value: -1" in first
    assert line.strip() == "replicas: -1"
    assert mark.strip() == "^~"
    assert summary == "1 file, 2 JobSets, 1 error, 0 warnings; nothing is rendered"


def test_warnings_are_for_validate(render, write):
    code, out, err = render("-f", write(jobset(failurePolicy={"maxRestarts": -1})))
    assert (code, err, out.count("---")) == (0, "", 2)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-f", "none.yaml"], "none.yaml: no such file"),
        (["-f", "other.yaml"], "no JobSet found"),
        ([], "no file is named"),
        (["-f", "other.yaml", "--feature-gates", "No=1"], "No"),
    ],
)
def test_what_cannot_be_rendered_ends_with_2(render, write, args, words):
    write("kind: Pod\n", "other.yaml")
    code, out, err = render(*args)
    assert (code, out) == (2, "")
    assert words in err
    assert "jobset render: " in err


def test_for_a_set_of_another_manager_nothing_is_created(render, write):
    code, out, err = render("-f", write(jobset(managedBy="example.com/other")))
    assert (code, out) == (0, "")
    assert err == "jobset render: train: managed by example.com/other, nothing is created for it\n"


class Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


def peak(replicas: int, name: str) -> int:
    Path(name).write_text(json.dumps(jobset(rjob(replicas=replicas))))
    tracemalloc.start()
    try:
        assert run(Options([name], GATES, output="json"), Nowhere(), io.StringIO()) == 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.no_cover
@pytest.mark.usefixtures("write")
def test_many_jobs_take_no_more_memory_than_few():
    peak(10, "warm.yaml")
    assert peak(3000, "many.yaml") < peak(10, "few.yaml") + 2**20


def test_a_reader_that_stops_reading_ends_it_quietly(write):
    name = write(jobset(rjob(replicas=5000)))
    command = [Path(sys.executable).with_name("jobset"), "render", "-f", name, "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603 (ourselves)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(100)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait(60)
    assert errors == b""


CUBE, SUPERSLICE = ({"topology": [{"key": f"example.com/{name}"}]} for name in ("cube", "superslice"))
GANGS = {
    "schedulingPolicy": {"gang": {}},
    "schedulingConstraints": SUPERSLICE,
    "disruptionMode": {"all": {}},
    "replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": {"schedulingConstraints": CUBE}}],
}
ALL_GATES = ("--feature-gates", "AllAlpha=true")


def slices(**spec):
    return jobset(rjob("slice", replicas=16, parallelism=16, completions=16), name="tpu", scheduling=GANGS, **spec)


def test_groups_stand_ahead_of_the_jobs_that_name_them(render, write):
    code, out, err = render("-f", write(slices()), *ALL_GATES)
    assert (code, err) == (0, "")
    bodies = list(yaml.safe_load_all(out))
    assert [body["kind"] for body in bodies] == [
        "Service", "Workload", "CompositePodGroup", *["PodGroup"] * 16, *["Job"] * 16,
    ]  # fmt: skip
    workload, root, pod_groups, jobs = bodies[1], bodies[2], bodies[3:19], bodies[19:]
    assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 16}}
    assert root["spec"]["workloadRef"] == {"workloadName": workload["metadata"]["name"], "templateName": "jobset"}
    assert {body["spec"]["parentCompositePodGroupName"] for body in pod_groups} == {root["metadata"]["name"]}
    named = [body["spec"]["template"]["spec"]["schedulingGroup"]["podGroupName"] for body in jobs]
    assert named == [body["metadata"]["name"] for body in pod_groups]
    assert {body["metadata"]["annotations"]["scheduling.k8s.io/group-template-name"] for body in jobs} == {"job-slice"}


STAGED = {
    "stages": ({"executionPolicy": {"executionPolicyOrder": "InOrder"}}, {}),
    "dependsOn": ({}, {"dependsOn": [{"name": "data", "status": "Complete"}]}),
    "startup in order": ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, {}),
}


@pytest.mark.parametrize("how", STAGED)
def test_groups_of_what_waits_come_with_it(render, write, how):
    spec, fields = STAGED[how]
    js = jobset(rjob("data"), rjob("train", replicas=2, **fields), scheduling={"schedulingConstraints": CUBE}, **spec)
    _, out, err = render("-f", write(js), *ALL_GATES)
    assert err == ""
    found = [(body["kind"], body["metadata"]["name"].rpartition("-")[0]) for body in yaml.safe_load_all(out)]
    assert found[1:] == [
        ("Workload", "train"),
        ("CompositePodGroup", "train-jobset"),
        ("PodGroup", "train-rj-data"),
        ("Job", "train-data"),
        ("PodGroup", "train-rj-train"),
        ("Job", "train-train"),
        ("Job", "train-train"),
    ]


@pytest.mark.parametrize("order", [{}, {"startupPolicy": {"startupPolicyOrder": "InOrder"}}])
def test_groups_are_those_that_the_controller_plans(order):
    gates = FeatureGates({"AllAlpha": True})
    scheduling = {"schedulingConstraints": SUPERSLICE, "disruptionMode": {"all": {}}}
    js = stored(jobset(rjob("data"), rjob("train", replicas=3, parallelism=2), scheduling=scheduling, **order))
    js = as_stored(js, gates)
    served = Served(groups=True, composites=True, topology=True)
    made = plan(
        Observed(js, (), service=None, claims=frozenset(), now="2026-01-01T00:00:00Z", groups=KnownGroups(served)),
        gates,
    )
    planned = [action for action in made.actions if isinstance(action, CreateGroup)]
    planned.sort(key=lambda action: action.level)
    bodies = (body for _, body in by_stage(js, gates))
    rendered = [body for body in bodies if body["kind"] in {"Workload", "CompositePodGroup", "PodGroup"}]
    assert rendered[: len(planned)] == [action.build_body() for action in planned]
    assert len(planned) == (3 if order else 2), "later stages wait"


def test_a_suspended_set_has_no_groups_yet(render, write):
    code, out, err = render("-f", write(slices(suspend=True)), *ALL_GATES)
    bodies = list(yaml.safe_load_all(out))
    assert code == 0
    assert {body["kind"] for body in bodies} == {"Service", "Job"}
    assert bodies[1]["spec"]["template"]["spec"]["schedulingGroup"]["podGroupName"].startswith("tpu-job-slice-0-")
    assert err == "jobset render: tpu: suspended, its groups are created when it is resumed\n"


def test_the_tree_is_a_picture(render, write):
    code, out, err = render("-f", write(slices()), "-o", "tree", *ALL_GATES)
    assert (code, err) == (0, "")
    assert out == (
        "JobSet tpu: 17 groups, 16 Jobs, 256 pods\n"
        "  CompositePodGroup tpu-jobset-...  gang 16 of 16 groups  example.com/superslice  all\n"
        "    PodGroup tpu-job-slice-0-...  gang 16 of 16 pods  example.com/cube  all  tpu-slice-0\n"
        "    PodGroup tpu-job-slice-1-...  gang 16 of 16 pods  example.com/cube  all  tpu-slice-1\n"
        "    PodGroup tpu-job-slice-2-...  gang 16 of 16 pods  example.com/cube  all  tpu-slice-2\n"
        "    and 13 more like it\n"
    )


def test_the_tree_shows_what_differs(render, write):
    critical = {"priorityClassName": "system-node-critical"}
    entries = [
        {"targetReplicatedJobs": ["driver"], "schedulingPolicy": {"basic": {}}},
        {
            "targetReplicatedJobs": ["workers"],
            "schedulingPolicy": {"gang": {"minGroupCount": 1}},
            "job": {"resourceClaims": [{"name": "fabric", "resourceClaimTemplateName": "fabric"}]},
        },
    ]
    js = jobset(
        rjob("driver", replicas=5, pod=critical),
        rjob("workers", replicas=2, parallelism=2, completions=2, pod=critical),
        scheduling={"replicatedJobs": entries},
    )
    out = render("-f", write(js), "-o", "tree", *ALL_GATES)[1]
    assert out == (
        "JobSet train: 5 groups, 7 Jobs, 9 pods, priority class system-node-critical\n"
        "  CompositePodGroup train-root-rj-driver-...  basic, 1 group\n"
        "    PodGroup train-rj-driver-...  basic, 5 pods  train-driver-0, train-driver-1, train-driver-2 and 2 more\n"
        "  CompositePodGroup train-rj-workers-...  gang 1 of 2 groups\n"
        "    PodGroup train-job-workers-0-...  gang 2 of 2 pods  claims fabric  train-workers-0\n"
        "    PodGroup train-job-workers-1-...  gang 2 of 2 pods  claims fabric  train-workers-1\n"
    )


def test_the_tree_of_a_set_without_groups_says_so(render, write):
    code, out, _ = render("-f", write(jobset()), "-o", "tree")
    assert (code, out) == (0, "JobSet train: no groups, pods are scheduled one by one\n")


def test_groups_without_the_feature_gate_are_a_fault(render, write):
    code, out, err = render("-f", write(slices()))
    assert (code, out) == (1, "")
    assert "JobSetWorkloadAwareSchedulingAPI=true,JobSetGangOfGangs=true" in err
