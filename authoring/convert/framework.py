"""Writes the manifest of a framework: its example in another size, with parts that a long training needs.

The program and the JobSet come from examples/frameworks, the watchdog and the volume for checkpoints from
examples/watchdog.yaml.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from authoring.examples import EXAMPLES
from kube.model.meta import JSON

_SIZES = {
    "torchrun": (("--nnodes=4", "--nnodes={nodes}"), ("--nproc-per-node=1", "--nproc-per-node={processes}")),
    "jax": (('PROCESSES, value: "4"', 'PROCESSES, value: "{nodes}"'),),
    "mpi": (
        ("mpi-workers-0-0.mpi,mpi-workers-0-1.mpi,mpi-workers-0-2.mpi,mpi-workers-0-3.mpi", "{hosts}"),
        ('"-ppn", "1"', '"-ppn", "{processes}"'),
    ),
    "ray": (('NODES, value: "4"', 'NODES, value: "{nodes}"'),),
}
"""By framework, texts of its example that depend on the size, and templates of their replacements."""
_GPU = "nvidia.com/gpu"
_CPU_RESOURCES = {"cpu": "1", "memory": "4Gi"}
_EXAMPLE_VARIABLES = {"WORKER_COMMAND", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"}
"""Variables in the example of the watchdog that belong to the program of the example."""
COMMENTS = {
    "- ReadWriteMany": "All pods write here: a StorageClass for shared files, such as NFS, Lustre or Filestore.",
    "- name: hang": "Exit code 124 is that of the watchdog: its restarts do not count as failures of the program.",
    "- name: install-agent": "One file, run by the python3 of your image: `make image-agent` in a clone builds it.",
    "image: jobset-in-place": "Push it to your registry, and write its name here.",
    "- name: JOBSET_HEARTBEAT_FILE": "Your program touches this file after each step, or it is taken for a hang.",
    "- name: PROGRESS_DEADLINE_SECONDS": "Longer than the longest step, checkpoint included.",
    "- name: FIRST_HEARTBEAT_SECONDS": "Until the first step: imports, reading the checkpoint, waiting for all pods.",
    "- name: STACK_DUMP_SIGNAL": "Prints stacks if it calls faulthandler.register(signal.SIGUSR1, all_threads=True).",
    "- name: CHECKPOINTS": "Your program writes checkpoints here, and begins with the last one after a restart.",
    "mountPath: /dev/shm": "Shared memory for data loaders and NCCL, which have 64 MiB without it.",
    "medium: Memory": "Counts as memory of the container.",
}
"""Comments of the manifest. A comment is written before the first line that starts with its key."""


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """Options of the manifest: `nodes` pods with `gpus` GPUs each. `without`: names of parts to leave out."""

    framework: str = ""
    nodes: int = 4
    gpus: int = 1
    name: str = ""
    without: Sequence[str] = ()


def head_comment(options: ManifestOptions) -> str:
    """Comments for the top of the manifest, which say how to use it."""
    return (
        f"# {options.framework}: pods: {options.nodes}, GPUs of each: {options.gpus}. Made by `jobset init`.\n"
        "# The program in the ConfigMap shows that all processes find each other; put yours in its place.\n"
        f"# Check it with `jobset validate -f FILE`; `jobset explain {options.name}` says why it waits.\n"
    )


def manifest(options: ManifestOptions, example: str) -> list[JSON]:
    """The objects of the manifest: ConfigMap, claim for checkpoints, JobSet.

    `example`: the name of a file in examples/frameworks, without its suffix.
    """
    program, jobset = _example(f"frameworks/{example}.yaml", options)
    _, claim, guarded = _example("watchdog.yaml")
    groups = jobset["spec"]["replicatedJobs"]
    del groups[options.nodes :]  # with one node, only the head of Ray remains
    last_job = groups[-1]["template"]["spec"]
    last_job["parallelism"] = last_job["completions"] = options.nodes - len(groups) + 1
    program["metadata"]["name"] = jobset["metadata"]["name"] = options.name
    claim["metadata"]["name"] = f"{options.name}-checkpoints"
    pods = [group["template"]["spec"]["template"]["spec"] for group in groups]
    if "watchdog" not in options.without:
        _add_watchdog(jobset, pods[0], guarded)
    for pod in pods:
        _set_volumes(pod, options)
        _set_gpus(pod["containers"][0], options.gpus)
    return [program, jobset] if "checkpoints" in options.without else [program, claim, jobset]


def _example(name: str, options: ManifestOptions | None = None) -> list[JSON]:
    """The objects of an example, in the size of `options` if it is given."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    if options is not None:
        hosts = ",".join(f"{options.name}-workers-0-{index}.{options.name}" for index in range(options.nodes))
        sizes = {"nodes": options.nodes, "processes": options.gpus or 1, "hosts": hosts}
        for written, template in _SIZES[options.framework]:
            text = text.replace(written, template.format(**sizes))
    return list(yaml.safe_load_all(text))


def _add_watchdog(jobset: JSON, pod: JSON, watchdog_example: JSON) -> None:
    """Make the agent run the command of a pod, as in the JobSet `watchdog_example`."""
    source = watchdog_example["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    [container], [agent] = pod["containers"], source["containers"]
    hang = watchdog_example["spec"]["failurePolicy"]["rules"][0]
    hang["onExitCodes"]["containerName"] = container["name"]
    jobset["spec"]["failurePolicy"]["rules"] = [hang]
    pod["initContainers"] = source["initContainers"]
    container["command"] = [*agent["command"], "--", *container["command"]]
    left_out_names = {variable["name"] for variable in container["env"]} | _EXAMPLE_VARIABLES | {"CHECKPOINTS"}
    container["env"] += [variable for variable in agent["env"] if variable["name"] not in left_out_names]
    container["volumeMounts"].append(agent["volumeMounts"][0])
    pod["volumes"].append(source["volumes"][0])


def _set_volumes(pod: JSON, options: ManifestOptions) -> None:
    """Mount shared memory and the checkpoints, and set the name of the ConfigMap with the program."""
    [container] = pod["containers"]
    volumes, mounts = pod.setdefault("volumes", []), container.setdefault("volumeMounts", [])
    for volume in volumes:
        if "configMap" in volume:
            volume["configMap"]["name"] = options.name
    mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 (in the pod)
    volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
    if "checkpoints" not in options.without:
        container["env"].append({"name": "CHECKPOINTS", "value": "/checkpoints"})
        mounts.append({"name": "checkpoints", "mountPath": "/checkpoints"})
        claim = {"claimName": f"{options.name}-checkpoints"}
        volumes.append({"name": "checkpoints", "persistentVolumeClaim": claim})


def _set_gpus(container: JSON, gpus: int) -> None:
    """Request GPUs, or CPU only."""
    resources = container["resources"]
    resources.setdefault("limits", {}).pop(_GPU, None)
    if gpus:
        resources["limits"][_GPU] = gpus
    elif not resources["limits"]:
        del resources["limits"]
        resources.setdefault("requests", _CPU_RESOURCES)
