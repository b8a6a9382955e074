"""Builders of JobSets for common frameworks. They return an ordinary `JobSet`: change it, then create it."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, TypedDict, Unpack

from jobset_client.base import ObjectMeta
from jobset_client.errors import UnreadableError
from jobset_client.models import (
    Coordinator,
    DependsOn,
    FailurePolicy,
    JobSet,
    JobSetSpec,
    ReplicatedJob,
    SuccessPolicy,
)
from jobset_client.words import type_of

JSON = Mapping[str, Any]
INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
"""Source of an environment variable: the completion index of the pod."""
_SSH = "/root/.ssh"
_DICT_EXAMPLES = {
    "env": '{"EPOCHS": 3}',
    "limits": '{"nvidia.com/gpu": 8}',
    "container": '{"workingDir": "/app"}',
    "pod": '{"nodeSelector": {"pool": "gpu"}}',
    "job": '{"backoffLimit": 3}',
}
"""Options that are dicts, each with an example."""


class More(TypedDict, total=False):
    """Fields that each builder passes on to `replicated_job`."""

    replicas: int
    env: Mapping[str, Any] | None
    limits: Mapping[str, Any] | None
    container: JSON | None
    pod: JSON | None
    job: JSON | None


def jobset(name: str, *replicated_jobs: ReplicatedJob, max_restarts: int = 0, **spec: Any) -> JobSet:
    """A JobSet of these ReplicatedJobs; `spec` are further attributes of `JobSetSpec`, such as `suspend=True`."""
    if max_restarts:
        spec.setdefault("failure_policy", FailurePolicy(max_restarts=max_restarts))
    jobset_spec = JobSetSpec(replicated_jobs=list(replicated_jobs), **spec)
    return JobSet(metadata=ObjectMeta(name=name), spec=jobset_spec)


def replicated_job(  # noqa: PLR0913 (keywords)
    name: str,
    image: str,
    command: Sequence[str] = (),
    *,
    replicas: int = 1,
    pods: int = 1,
    env: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    container: JSON | None = None,
    pod: JSON | None = None,
    job: JSON | None = None,
) -> ReplicatedJob:
    """`replicas` Jobs of `pods` pods each, all of which run at once; a failed pod fails its Job.

    `env`: values, or sources such as `INDEX`. `limits`: `{"nvidia.com/gpu": 8}`. `container`, `pod` and `job` override
    fields of the container, the pod spec and the Job spec, with the API's names.
    """
    _refuse_misshapen({"env": env, "limits": limits, "container": container, "pod": pod, "job": job})
    main_container: dict[str, Any] = {"name": name, "image": image}
    if command:
        main_container["command"] = _texts(command)
    if env:
        main_container["env"] = [
            {"name": key, "valueFrom": value} if isinstance(value, Mapping) else {"name": key, "value": str(value)}
            for key, value in env.items()
        ]
    if limits:
        main_container["resources"] = {"limits": {key: str(value) for key, value in limits.items()}}
    pod_spec = {"restartPolicy": "Never", "containers": [main_container | dict(container or {})], **(pod or {})}
    job_spec = {"completionMode": "Indexed", "parallelism": pods, "completions": pods, "backoffLimit": 0, **(job or {})}
    return ReplicatedJob(name=name, replicas=replicas, template={"spec": {**job_spec, "template": {"spec": pod_spec}}})


def _texts(command: Sequence[str]) -> list[str]:
    """A command as a list. Raises `UnreadableError` for one text, which would become a list of its characters."""
    if isinstance(command, str):
        raise UnreadableError(f"a command is a list of texts, and this is one text: write {command.split()}")
    return list(command)


def address(jobset: str, replicated_job: str, pod: int = 0, *, job: int = 0) -> str:
    """DNS name of a pod within its namespace, with the default `spec.network`."""
    return f"{jobset}-{replicated_job}-{job}-{pod}.{jobset}"


def _refuse_unknown(builder: Callable[..., JobSet], more: More) -> None:
    """Raise TypeError for a misspelt option, with the name of the called function."""
    if unknown := sorted(more.keys() - More.__optional_keys__):
        own_options = [
            parameter.name
            for parameter in signature(builder).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        options = ", ".join([*own_options, *sorted(More.__optional_keys__)])
        raise TypeError(f"{builder.__name__}() has no option {', '.join(unknown)}; it has {options}")
    _refuse_misshapen(more)


def _refuse_misshapen(options: Mapping[str, Any]) -> None:
    """Raise `UnreadableError` for options that have to be a dict and are not."""
    for name, example in _DICT_EXAMPLES.items():
        value = options.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise UnreadableError(f"{name} is a dict such as {example}, and this is {type_of(value)}")


def torchrun(  # noqa: PLR0913 (keywords)
    name: str,
    image: str,
    script: Sequence[str],
    *,
    nodes: int = 1,
    processes: int | str = "auto",
    port: int = 29500,
    max_restarts: int = 0,
    **more: Unpack[More],
) -> JobSet:
    """PyTorch: one pod for each node, with torchrun in it.

    `script`: the arguments after torchrun's flags, such as `["train.py", "--epochs=3"]`. `processes`: of each node, a
    number, or auto, gpu or cpu. `more`: as for `replicated_job`.
    """
    _refuse_unknown(torchrun, more)
    command = [
        "torchrun",
        f"--nnodes={nodes}",
        f"--nproc-per-node={processes}",
        "--node-rank=$(JOB_COMPLETION_INDEX)",
        f"--master-addr={address(name, 'node')}",
        f"--master-port={port}",
        *_texts(script),
    ]
    more["container"] = {"ports": [{"containerPort": port}], **(more.get("container") or {})}
    nodes_job = replicated_job("node", image, command, pods=nodes, **more)
    return jobset(name, nodes_job, max_restarts=max_restarts, coordinator=Coordinator(replicated_job="node"))


def jax(
    name: str,
    image: str,
    command: Sequence[str],
    *,
    processes: int = 1,
    port: int = 1234,
    max_restarts: int = 0,
    **more: Unpack[More],
) -> JobSet:
    """JAX: one pod for each process.

    The program reads JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, and gives them, in this order and
    the last two as numbers, to `jax.distributed.initialize`. `more`: as for `replicated_job`.
    """
    _refuse_unknown(jax, more)
    jax_variables = {
        "JAX_COORDINATOR_ADDRESS": f"{address(name, 'process')}:{port}",
        "JAX_NUM_PROCESSES": processes,
        "JAX_PROCESS_ID": INDEX,
    }
    more["container"] = {"ports": [{"containerPort": port}], **(more.get("container") or {})}
    more["env"] = {**jax_variables, **(more.get("env") or {})}
    processes_job = replicated_job("process", image, command, pods=processes, **more)
    return jobset(name, processes_job, max_restarts=max_restarts, coordinator=Coordinator(replicated_job="process"))


def mpi(  # noqa: PLR0913 (keywords)
    name: str,
    image: str,
    command: Sequence[str],
    *,
    workers: int,
    ssh_secret: str,
    slots: int = 1,
    max_restarts: int = 0,
    **more: Unpack[More],
) -> JobSet:
    """Open MPI over SSH: workers that run sshd, and a launcher that runs mpirun once they are ready.

    The image has Open MPI and sshd. `ssh_secret` names a Secret with the keys `ssh-privatekey` and `ssh-publickey`,
    mounted at /root/.ssh. The JobSet completes when the launcher completes. `more`: options of the workers, see
    `replicated_job`.
    """
    _refuse_unknown(mpi, more)
    keys = [
        {"key": "ssh-privatekey", "path": "id_rsa"},
        {"key": "ssh-publickey", "path": "authorized_keys"},
    ]
    volume = {"name": "ssh", "secret": {"secretName": ssh_secret, "defaultMode": 0o600, "items": keys}}
    mount = {"name": "ssh", "mountPath": _SSH, "readOnly": True}

    def with_keys(metadata: Mapping[str, Any] | None, key: str, pair: JSON) -> dict[str, Any]:
        result = dict(metadata or {})
        return result | {key: [*result.get(key, ()), pair]}

    probe = {"tcpSocket": {"port": 22}, "periodSeconds": 2}
    worker_options: More = {
        **more,
        "pod": with_keys(more.get("pod"), "volumes", volume),
        "container": {"readinessProbe": probe, **with_keys(more.get("container"), "volumeMounts", mount)},
    }
    hosts = ",".join(f"{address(name, 'worker', pod)}:{slots}" for pod in range(workers))
    ssh_options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectionAttempts=10"
    # Open MPI 4 and 5 name their settings differently.
    settings = {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_plm_rsh_args": ssh_options,
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_plm_ssh_args": ssh_options,
    }
    mpirun_command = ["mpirun", "--allow-run-as-root", "-np", str(workers * slots), "--host", hosts, *_texts(command)]
    launcher = replicated_job(
        "launcher", image, mpirun_command, env=settings, pod={"volumes": [volume]}, container={"volumeMounts": [mount]}
    )
    launcher.depends_on = [DependsOn(name="worker", status="Ready")]
    return jobset(
        name,
        replicated_job("worker", image, ["/usr/sbin/sshd", "-De"], pods=workers, **worker_options),
        launcher,
        max_restarts=max_restarts,
        success_policy=SuccessPolicy(operator="All", target_replicated_jobs=["launcher"]),
    )
