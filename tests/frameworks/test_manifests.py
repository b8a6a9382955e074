"""The manifests of frameworks are complete: image, program, and for each pod the place in its group."""

import re

import pytest

from tests.support.cluster.local_pods import FRAMEWORKS, LocalPod, objects, pods, rendered
from tests.support.pages.files import ROOT

PINNED = re.compile(r"[\w./-]+:[\w.-]*\d[\w.-]*")


@pytest.fixture(params=FRAMEWORKS, ids=lambda file: file.stem)
def file(request):
    return request.param


@pytest.fixture
def every(file, capsys) -> list[LocalPod]:
    return pods(rendered(file, capsys))


def test_images_are_pinned(file):
    [jobset] = objects(file, "JobSet")
    for rjob in jobset["spec"]["replicatedJobs"]:
        [container] = rjob["template"]["spec"]["template"]["spec"]["containers"]
        assert PINNED.fullmatch(container["image"])
        assert "latest" not in container["image"]


def test_the_program_is_python_of_at_most_40_lines(file):
    [config] = objects(file, "ConfigMap")
    lines = 0
    for name, text in config["data"].items():
        compile(text, name, "exec")
        lines += len([line for line in text.splitlines() if line])
    assert 0 < lines <= 40


def test_the_program_is_mounted_where_it_is_run(file):
    [config], [jobset] = objects(file, "ConfigMap"), objects(file, "JobSet")
    run = set()
    for rjob in jobset["spec"]["replicatedJobs"]:
        pod = rjob["template"]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        found = re.findall(r"/app/([\w.]+)", " ".join(container["command"]))
        run |= set(found)
        if found:
            assert container["volumeMounts"] == [{"name": "app", "mountPath": "/app"}]
            assert pod["volumes"] == [{"name": "app", "configMap": {"name": config["metadata"]["name"]}}]
    run |= {name for text in config["data"].values() for name in re.findall(r"/app/([\w.]+)", text)}
    assert run == set(config["data"])


def test_every_address_is_that_of_a_pod_of_the_set(every):
    hosts = {pod.host for pod in every}
    words = [word for pod in every for word in (*pod.env.values(), *pod.command)]
    named = {name for word in words for name in re.findall(r"[\w-]+-\d+-\d+\.[\w-]+", word)}
    assert named <= hosts
    assert named
    assert every[0].host in named, "pod 0 is where all others look first"


RANKS = {
    "deepspeed": (4, lambda pod: int(pod.env["RANK"])),
    "jax": (4, lambda pod: int(pod.env["JOB_COMPLETION_INDEX"])),
    "mpi": (4, lambda pod: pod.env["HOSTS"].split(",").index(pod.host)),
    "pytorch": (4, lambda pod: int(pod.command[3].removeprefix("--node-rank="))),
    "ray": (4, lambda pod: int(pod.env["JOB_COMPLETION_INDEX"]) + (pod.rjob == "workers")),
    "tpu": (8, lambda pod: int(pod.env["SLICE"]) * int(pod.env["HOSTS"]) + int(pod.env["JOB_COMPLETION_INDEX"])),
}
"""Of each manifest how many pods it has, and the rank that its program gives a pod."""


def test_every_rank_is_there_once(file, every):
    number, rank = RANKS[file.stem]
    assert [rank(pod) for pod in every] == list(range(number))


SIZES = {"deepspeed": ["WORLD_SIZE"], "jax": ["PROCESSES"], "ray": ["NODES"], "tpu": ["SLICES", "HOSTS"]}


@pytest.mark.parametrize("name", SIZES)
def test_numbers_in_the_environment_are_those_of_the_jobset(name, capsys):
    every = pods(rendered(ROOT / f"examples/frameworks/{name}.yaml", capsys))
    size = 1
    for variable in SIZES[name]:
        [value] = {pod.env[variable] for pod in every if variable in pod.env}
        size *= int(value)
    assert size == len(every)


def test_torchrun_is_told_the_number_of_pods(capsys):
    every = pods(rendered(ROOT / "examples/frameworks/pytorch.yaml", capsys))
    assert {pod.command[1] for pod in every} == {f"--nnodes={len(every)}"}


def test_the_page_names_every_manifest_and_says_of_each_whether_it_ran():
    page = (ROOT / "docs/frameworks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(\.\./examples/frameworks/([\w-]+)\.yaml\)", page)) == {file.stem for file in FRAMEWORKS}
