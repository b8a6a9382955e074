"""What the builders of the Python client make: sets that are admitted, and whose pods find each other."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api import names
from api.jobset import JobSet as Stored
from cli import main as cli
from jobset_client import JobSet
from jobset_client.builders import INDEX, address, jax, jobset, mpi, replicated_job, torchrun
from jobset_client.errors import UnreadableError
from tests.support.objects.jobsets import JSON

TORCHRUN = torchrun(
    "train", "pytorch", ["train.py"], nodes=4, processes=8, limits={"nvidia.com/gpu": 8}, max_restarts=3
)
JAX = jax("train", "jax", ["python", "train.py"], processes=3, env={"XLA_FLAGS": "--x"})
MPI = mpi("pi", "mpi", ["/pi", "1000"], workers=2, slots=4, ssh_secret="keys", limits={"cpu": 4})


def containers(js: JobSet) -> dict[str, JSON]:
    pods = {one.name: one.template["spec"]["template"]["spec"] for one in js.spec.replicated_jobs}
    return {name: pod["containers"][0] for name, pod in pods.items()}


def environment(container: JSON, index: int) -> dict[str, str]:
    """What a pod of an Indexed Job finds: its own variables, and the one that the Job controller adds."""
    own = {one["name"]: str(index) if "valueFrom" in one else one["value"] for one in container.get("env", ())}
    return {**own, "JOB_COMPLETION_INDEX": str(index)}


def command(container: JSON, index: int) -> list[str]:
    """As the kubelet expands it."""
    env = environment(container, index)
    return [re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], word) for word in container["command"]]


@pytest.mark.parametrize("js", [TORCHRUN, JAX, MPI], ids=["torchrun", "jax", "mpi"])
def test_what_is_built_is_valid_without_a_warning(js: JobSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "built.yaml"
    file.write_text(js.to_yaml(), encoding="utf-8")
    assert cli.main(["validate", "--strict", str(file)]) == 0, capsys.readouterr()


@pytest.mark.parametrize(("js", "name"), [(TORCHRUN, "node"), (JAX, "process")])
def test_the_address_is_that_of_the_first_pod(js: JobSet, name: str):
    stored = msgspec.convert(js.to_dict(), Stored)
    pod = names.pod_base_name(js.metadata.name or "", name, 0, 0)
    assert (
        address(js.metadata.name or "", name)
        == f"{pod}.{names.subdomain(stored)}"
        == names.coordinator_endpoint(stored)
    )


def test_every_node_of_torchrun_has_its_rank():
    container = containers(TORCHRUN)["node"]
    ranks = [command(container, index) for index in range(4)]
    assert [words[3] for words in ranks] == [f"--node-rank={index}" for index in range(4)]
    assert ranks[1][:3] == ["torchrun", "--nnodes=4", "--nproc-per-node=8"]
    assert ranks[1][4:] == ["--master-addr=train-node-0-0.train", "--master-port=29500", "train.py"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    (rjob,) = TORCHRUN.spec.replicated_jobs
    assert [rjob.template["spec"][key] for key in ("parallelism", "completions", "completionMode")] == [4, 4, "Indexed"]
    assert TORCHRUN.to_dict()["spec"]["failurePolicy"] == {"maxRestarts": 3}


def test_every_process_of_jax_has_its_number():
    group = [environment(containers(JAX)["process"], index) for index in range(3)]
    assert [env["JAX_PROCESS_ID"] for env in group] == ["0", "1", "2"]
    assert {env["JAX_COORDINATOR_ADDRESS"] for env in group} == {"train-process-0-0.train:1234"}
    assert (group[0]["JAX_NUM_PROCESSES"], group[0]["XLA_FLAGS"]) == ("3", "--x")
    assert {"name": "JAX_PROCESS_ID", "valueFrom": INDEX} in containers(JAX)["process"]["env"]


def test_the_launcher_of_mpi_names_every_worker_and_starts_after_them():
    launcher, worker = containers(MPI)["launcher"], containers(MPI)["worker"]
    hosts = f"{address('pi', 'worker', 0)}:4,{address('pi', 'worker', 1)}:4"
    assert launcher["command"][:6] == ["mpirun", "--allow-run-as-root", "-np", "8", "--host", hosts]
    assert launcher["command"][6:] == ["/pi", "1000"]
    assert launcher["volumeMounts"] == worker["volumeMounts"]
    assert worker["readinessProbe"]["tcpSocket"] == {"port": 22}
    spec = MPI.to_dict()["spec"]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    assert spec["replicatedJobs"][1]["dependsOn"] == [{"name": "worker", "status": "Ready"}]


def test_further_fields_are_laid_over():
    made = replicated_job(
        "a",
        "i",
        env={"A": 1},
        container={"imagePullPolicy": "Always"},
        pod={"nodeSelector": {"x": "y"}},
        job={"backoffLimit": 2},
    )
    spec = made.template["spec"]
    pod = spec["template"]["spec"]
    assert (spec["backoffLimit"], pod["nodeSelector"]) == (2, {"x": "y"})
    assert pod["containers"] == [
        {"name": "a", "image": "i", "env": [{"name": "A", "value": "1"}], "imagePullPolicy": "Always"}
    ]
    js = jobset("t", made, suspend=True, ttl_seconds_after_finished=60)
    assert js.to_dict()["spec"] | {"replicatedJobs": []} == {
        "replicatedJobs": [],
        "suspend": True,
        "ttlSecondsAfterFinished": 60,
    }


@pytest.mark.parametrize(
    "build",
    [
        lambda: torchrun("a", "x", "train.py --epochs=3"),
        lambda: jax("a", "x", "train.py --epochs=3", processes=2),
        lambda: mpi("a", "x", "train.py --epochs=3", workers=2, ssh_secret="keys"),
        lambda: replicated_job("a", "x", "train.py --epochs=3"),
    ],
)
def test_a_command_that_is_one_text_is_not_taken_for_its_characters(build: Any):
    with pytest.raises(UnreadableError, match=r"one text: write \['train.py', '--epochs=3'\]"):
        build()


@pytest.mark.parametrize("wrong", [["A=1"], [{"name": "A", "value": "1"}], "A=1"])
def test_an_option_that_is_no_dict_is_named_with_an_example(wrong: Any):
    says = r'env is a dict such as \{"EPOCHS": 3\}, and this is a'
    for build in (torchrun, jax, replicated_job):
        with pytest.raises(UnreadableError, match=says):
            build("a", "x", ["t.py"], env=wrong)
    with pytest.raises(UnreadableError, match=says):
        mpi("a", "x", ["t"], workers=2, ssh_secret="k", env=wrong)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (
            lambda: torchrun("t", "i", ["t.py"], node=2),
            r"torchrun\(\) has no option node; it has nodes, processes, port",
        ),
        (lambda: jax("t", "i", ["t.py"], nodes=2, gpus=1), r"jax\(\) has no option gpus, nodes; it has processes"),
        (
            lambda: mpi("t", "i", ["t"], workers=2, ssh_secret="k", pods=2),
            r"mpi\(\) has no option pods; it has workers",
        ),
    ],
)
def test_a_misspelt_option_is_named_with_those_there_are(build: Any, says: str):
    with pytest.raises(TypeError, match=says):
        build()
