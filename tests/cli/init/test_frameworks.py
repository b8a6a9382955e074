"""`jobset init FRAMEWORK`: whatever the flags, the manifest is good, and its pods know their place."""

import itertools
from typing import Any

import pytest
import yaml

from agent.settings import read_settings
from tests.support.cluster.local_pods import pods

FRAMEWORKS = ("torchrun", "jax", "mpi", "ray")
WITHOUT = ((), ("--without=watchdog",), ("--without=checkpoints",), ("--without=watchdog", "--without=checkpoints"))
TABLE = list(itertools.product(FRAMEWORKS, (1, 8), (0, 8), WITHOUT))


def made(command: Any, *args: str) -> list[dict[str, Any]]:
    code, out, err = command("init", *args)
    assert (code, err) == (0, "")
    return list(yaml.safe_load_all(out))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_combination_of_flags_passes_validate_without_a_warning(framework, command, write):
    for _, nodes, gpus, without in (row for row in TABLE if row[0] == framework):
        flags = (f"--nodes={nodes}", f"--gpus={gpus}", "--name=train", *without)
        _, manifest, _ = command("init", framework, *flags)
        code, out, err = command("validate", "--strict", write(manifest))
        assert (code, err) == (0, ""), f"{flags}: {out}"
        assert "0 errors, 0 warnings" in out


def test_the_largest_passes_too(command, write):
    _, manifest, _ = command("init", "mpi", "--nodes=4096", "--gpus=64", f"--name={'n' * 40}")
    assert command("validate", "--strict", write(manifest))[0] == 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("nodes", [1, 3])
def test_numbers_and_addresses_are_those_of_the_pods(framework, nodes, command, write):
    _, manifest, _ = command("init", framework, f"--nodes={nodes}", "--gpus=8", "--name=train")
    _, jobs, _ = command("render", "-f", write(manifest))
    every = pods([each for each in yaml.safe_load_all(jobs) if each["kind"] == "Job"])
    assert len(every) == nodes
    first = every[0]
    numbers = {
        "torchrun": [word for word in first.command if "--nnodes" in word or "--nproc" in word],
        "jax": [first.env.get("PROCESSES")],
        "mpi": first.env.get("HOSTS", "").split(","),
        "ray": [first.env.get("NODES")],
    }
    wanted = {
        "torchrun": [f"--nnodes={nodes}", "--nproc-per-node=8"],
        "jax": [str(nodes)],
        "mpi": [pod.host for pod in every],
        "ray": [str(nodes)],
    }
    assert numbers[framework] == wanted[framework]
    if framework == "mpi":
        assert '"-ppn", "8"' in manifest


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_agent_takes_the_watchdog_and_runs_the_command(framework, command):
    *_, plain = made(command, framework, "--without=watchdog")
    *_, jobset = made(command, framework)
    [old, *_], [group, *_] = plain["spec"]["replicatedJobs"], jobset["spec"]["replicatedJobs"]
    [without], [container] = (each["template"]["spec"]["template"]["spec"]["containers"] for each in (old, group))
    agent, worker = container["command"][:4], container["command"][4:]
    assert worker == without["command"]
    assert agent == ["python3", "-IBS", "/agent/agent.pyz", "--"]
    settings = read_settings({each["name"]: each.get("value", "x") for each in container["env"]}, worker)
    assert settings.watchdog
    assert settings.watchdog.deadline == 300
    [rule] = jobset["spec"]["failurePolicy"]["rules"]
    assert rule["onExitCodes"] == {"operator": "In", "values": [124], "containerName": container["name"]}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_all_pods_have_shared_memory_and_the_checkpoints(framework, command):
    _, claim, jobset = made(command, framework, "--name=train")
    assert claim["metadata"]["name"] == "train-checkpoints"
    for group in jobset["spec"]["replicatedJobs"]:
        pod = group["template"]["spec"]["template"]["spec"]
        mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert volumes[mounts["/dev/shm"]]["emptyDir"] == {"medium": "Memory"}
        assert volumes[mounts["/checkpoints"]]["persistentVolumeClaim"] == {"claimName": "train-checkpoints"}


def test_comments_say_what_to_change(command):
    _, out, _ = command("init", "torchrun")
    for words in ("put yours in its place", "touches this file after each step", "make image-agent", "StorageClass"):
        assert words in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "name a framework (torchrun, jax, mpi, ray), or a file to convert with --from"),
        (("jax", "--from=f.yaml"), "name a framework"),
        (("--from=f.yaml", "--nodes=2"), "a file has its own"),
        (("jaxx",), 'did you mean "jax"?'),
        (("jax", "--nodes=0"), "write a number from 1 to 4096"),
        (("jax", "--gpus=1000"), "write a number from 0 to 64"),
        (("jax", "--name=A"), "a DNS-1035 label"),
        (("jax", f"--name={'a' * 41}"), "at most 40 characters"),
    ],
)
def test_wrong_flags_are_explained_in_one_line(flags, words, command):
    code, out, err = command("init", *flags)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
