"""`jobset init --from`: the JobSet does what the other object did, and what has no equivalent is listed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from authoring.convert.conversion import _CONVERSIONS
from authoring.validation import CONVERTIBLE
from tests.support.cluster.local_pods import pods
from tests.support.pages.files import ROOT, yaml_blocks

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
PYTORCH, MPI, JOB = (Path(__file__).with_name(f"{name}.yaml") for name in ("pytorchjob", "mpijob", "indexedjob"))


def loaded(file: Path) -> dict[str, Any]:
    """The object of a file, without shared parts."""
    found: dict[str, Any] = json.loads(json.dumps(yaml.safe_load(file.read_text())))
    return found


@pytest.fixture
def converted(command, write):
    """The objects that an object is converted to, and standard error."""

    def convert(body: dict[str, Any] | str) -> tuple[list[dict[str, Any]], str]:
        code, out, err = command("init", "--from", write(body))
        assert code == 0, err
        code, report, _ = command("validate", "--strict", write(out, "made.yaml"))
        assert code == 0, report
        return list(yaml.safe_load_all(out)), err

    return convert


def first_pod(jobset: dict[str, Any], group: int = 0) -> dict[str, Any]:
    pod: dict[str, Any] = jobset["spec"]["replicatedJobs"][group]["template"]["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_jobset_is_good_and_validate_names_the_command(file, command, converted):
    objects, _ = converted(file.read_text())
    assert objects[-1]["kind"] == "JobSet"
    code, _, err = command("validate", str(file))
    assert code == 2
    assert f"to make a JobSet of this {loaded(file)['kind']}, run `jobset init --from {file}`" in err
    assert {kind for _, kind in _CONVERSIONS} == set(CONVERTIBLE)


def leaves(path: str, value: Any):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(f"{path}.{key}".removeprefix("."), inner)
    else:
        yield path, value


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_field_is_in_the_jobset_or_named(file, command, write):
    """With one more field at each level, whose value is unique."""
    body = loaded(file)

    def add(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in list(value.items()):
                add(inner, f"{path}.{key}".removeprefix("."))
            value[f"other{len(path)}"] = f"value of {path}"

    add(body["spec"], "spec")
    values = [value for _, value in leaves("", body["spec"]) if str(value).startswith("value of ")]
    assert len(values) > 5
    _, out, err = command("init", "--from", write(body))
    assert [value for value in values if value not in out and value not in err] == []


def test_pytorch_pods_have_the_environment_of_the_operator(converted, command):
    [jobset], err = converted(PYTORCH.read_text())
    assert jobset["metadata"] == {
        "name": "mnist", "namespace": "team-a", "labels": {"kueue.x-k8s.io/queue-name": "gpus"},
    }  # fmt: skip
    spec = jobset["spec"]
    assert (spec["suspend"], spec["ttlSecondsAfterFinished"], spec["failurePolicy"]) == (True, 3600, {"maxRestarts": 5})
    _, jobs, _ = command("render", "-f", "made.yaml")
    every = pods([each for each in yaml.safe_load_all(jobs) if each["kind"] == "Job"])
    ranks = [(pod.env["RANK"], pod.env["PET_NODE_RANK"]) for pod in every]
    assert ranks == [(str(rank), str(rank)) for rank in range(4)]
    for pod in every:
        assert pod.env["MASTER_ADDR"] == pod.env["PET_MASTER_ADDR"] == every[0].host
        assert (pod.env["MASTER_PORT"], pod.env["WORLD_SIZE"], pod.env["PET_NNODES"]) == ("24456", "8", "4")
        assert pod.env["PYTHONUNBUFFERED"] == "0", "what the container sets wins"
    for words in ("cleanPodPolicy", "schedulingPolicy.minAvailable: no equivalent: 3", '"mnist-master-0" is a name of'):
        assert words in err


def test_other_templates_of_workers_keep_the_order_of_ranks(converted, command):
    body = loaded(PYTORCH)
    worker = body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["image"] = "example.com/worker:v1"
    [jobset], _ = converted(body)
    assert [group["name"] for group in jobset["spec"]["replicatedJobs"]] == ["master", "worker"]
    _, jobs, _ = command("render", "-f", "made.yaml")
    every = pods([each for each in yaml.safe_load_all(jobs) if each["kind"] == "Job"])
    assert [pod.env["RANK"] for pod in every] == ["0", "1", "2", "3"]
    assert {pod.env["MASTER_ADDR"] for pod in every} == {every[0].host}


def test_a_name_too_long_for_the_label_of_the_coordinator_becomes_an_address(converted):
    body = loaded(PYTORCH)
    body["metadata"]["name"] = "distributed-pytorch-training"
    for role in body["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["command"] = ["train", json.dumps(role.get("replicas", 1))]
    [js], _ = converted(body)
    assert "coordinator" not in js["spec"]
    for group in range(len(js["spec"]["replicatedJobs"])):
        env = {each["name"]: each.get("value") for each in first_pod(js, group)["containers"][0]["env"]}
        assert env["MASTER_ADDR"] == "distributed-pytorch-training-master-0-0.distributed-pytorch-training"


def test_the_name_that_the_operator_gives_the_master_is_replaced(converted):
    body = loaded(PYTORCH)
    name = body["metadata"]["name"]
    for role in body["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["env"] = [{"name": "MASTER_ADDR", "value": f"{name}-master-0"}]
    [js], err = converted(body)
    assert "MASTER_ADDR: the operator's name of the master is replaced" in err
    [address] = [each for each in first_pod(js)["containers"][0]["env"] if each["name"] == "MASTER_ADDR"]
    assert "valueFrom" in address


def test_a_role_without_pods_is_named(converted):
    body = loaded(PYTORCH)
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 0
    [jobset], err = converted(body)
    assert jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] == 1
    assert "spec.pytorchReplicaSpecs.Worker: left out: it has 0 replicas" in err


def test_the_launcher_of_mpi_knows_the_hosts_and_comes_last(converted, command):
    [hosts, jobset], err = converted(MPI.read_text())
    _, launcher = jobset["spec"]["replicatedJobs"]
    _, jobs, _ = command("render", "-f", "made.yaml")
    names = [job["metadata"]["name"] for job in yaml.safe_load_all(jobs) if job["kind"] == "Job"]
    assert names == ["pi-worker-0", "pi-launcher-0"]
    assert hosts["data"]["hostfile"] == "pi-worker-0-0.pi slots=2\npi-worker-0-1.pi slots=2\n"
    assert launcher["dependsOn"] == [{"name": "worker", "status": "Ready"}]
    assert jobset["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    for group in (0, 1):
        mounts = first_pod(jobset, group)["containers"][0]["volumeMounts"]
        assert {"name": "ssh-auth", "mountPath": "/home/mpiuser/.ssh"} in mounts
    assert "kubectl create secret generic pi-ssh" in err


def test_other_objects_of_the_file_are_named(command, write):
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n---\n"
    code, out, err = command("init", "--from", write(config + JOB.read_text()))
    assert (code, out.count("kind: JobSet")) == (0, 1)
    assert "ConfigMap app: not converted: apply it as it is" in err


BAD = [
    ("kind: [", 1, "f.yaml:1:"),
    ("a: 1\n", 1, "f.yaml: no PyTorchJob, MPIJob or Job in it"),
    ("- 1\n", 1, "a manifest is a mapping"),
    ({"spec": {}}, 1, "metadata.name: Required value"),
    ({"metadata": {"name": 7}}, 1, "metadata.name: Invalid value: 7: must be a string"),
    ({"spec": "x"}, 1, 'spec: Invalid value: "x": must be an object, is a string'),
    ({"spec": {"template": []}}, 1, "spec.template.spec.containers: must be an array of at least one container"),
    ({"spec": {"suspend": 1}}, 1, "spec.suspend: Invalid value: 1: must be a boolean, is an integer"),
    ({"spec": {"ttlSecondsAfterFinished": True}}, 1, "must be an integer, is a boolean"),
]


@pytest.mark.parametrize(("body", "exit_code", "words"), BAD)
def test_bad_input_is_explained(body, exit_code, words, command, write):
    if isinstance(body, dict):
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, **body}
        if words.startswith("metadata.name: Req"):
            body["metadata"] = {}
    code, out, err = command("init", "--from", write(body))
    assert (code, out) == (exit_code, "")
    assert words in err
    assert "Traceback" not in err


def test_a_file_that_is_not_there(command):
    code, out, err = command("init", "--from", "/nowhere.yaml")
    assert (code, out, err) == (2, "", "jobset init: /nowhere.yaml: no such file or directory\n")


@pytest.mark.parametrize("file", [PYTORCH, MPI, JOB], ids=lambda file: file.stem)
@pytest.mark.parametrize("junk", [7, "x", {"a": []}, None, [{"name": {}}]], ids=repr)
def test_a_value_of_a_wrong_shape_anywhere_never_crashes(file, junk, command, write):
    body = loaded(file)

    def places(value: Any, path: tuple[Any, ...] = ()):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            if isinstance(inner, dict | list):
                yield from places(inner, (*path, key))

    for *above, last in list(places(body)):
        changed = json.loads(json.dumps(body))
        holder = changed
        for key in above:
            holder = holder[key]
        holder[last] = junk
        code, _, err = command("init", "--from", write(json.dumps(changed)))
        assert code in {0, 1}, err


def test_an_mpi_job_needs_a_name(command, write):
    body = loaded(MPI)
    body["metadata"] = {"generateName": "pi-"}
    code, _, err = command("init", "--from", write(body))
    assert code == 1
    assert 'MPIJob "pi-": metadata.name: Required value: addresses of pods begin with it' in err


def test_sizes_that_others_write_cost_no_memory(command, write):
    body = loaded(MPI)
    body["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 2**31 - 1
    code, _, err = command("init", "--from", write(body))
    assert code == 1
    assert "spec.mpiReplicaSpecs.Worker.replicas: 2147483647: must be at most 10000" in err


def test_the_page_shows_what_the_command_makes(converted):
    pytorch, shown = map(yaml.safe_load, yaml_blocks(ROOT / "docs/migrate.md"))
    [jobset], err = converted(json.loads(json.dumps(pytorch)))
    assert jobset == shown
    assert (
        err
        == 'jobset init: PyTorchJob "mnist": success: the set completes when all pods have succeeded, not when the master has\n'
    )
