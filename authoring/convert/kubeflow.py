"""Converts PyTorchJobs and MPIJobs of Kubeflow. Pods get the environment that Kubeflow's operators set. Pure."""

from typing import Any

from api import keys
from authoring.convert.fields import ConvertError, Fields, containers
from kube.model.jsontree import dig, items
from kube.model.meta import JSON
from kube.model.validation import MAX_LABEL, byte_length

_MAX_RESTARTS = 3
_PORT_NAME, _PORT = "pytorchjob-port", 23456
_SSH_MOUNT_PATH = "/root/.ssh"
_MAX_HOSTS = 10_000
_OPEN_MPI = {
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}


def convert_pytorch(fields: Fields) -> tuple[JSON, list[JSON]]:
    """The spec of a JobSet, and no further objects.

    One Job has all pods if master and workers have the same template; otherwise each pod has a Job, in order of rank.
    """
    roles = _roles(fields, "spec.pytorchReplicaSpecs", ("Master", "Worker"))
    total, template = sum(size for _, size, _ in roles), roles[0][2]
    elastic_processes = fields.take("spec.elasticPolicy.nProcPerNode", int, 1)
    processes_per_node = fields.take("spec.nprocPerNode", str, str(elastic_processes))
    restarts = fields.take("spec.elasticPolicy.maxRestarts", int)
    same_template = all(other == template for _, _, other in roles)
    port, rank = _port(template), keys.COMPLETION_INDEX if same_template else keys.JOB_GLOBAL_INDEX
    env = {"MASTER_PORT": port, "PET_MASTER_PORT": port, "PET_NNODES": total, "PET_NPROC_PER_NODE": processes_per_node}
    is_number = processes_per_node.isdecimal() and len(processes_per_node) < 6
    env |= {"WORLD_SIZE": total * int(processes_per_node) if is_number else total, "PYTHONUNBUFFERED": 1}
    env |= {} if restarts is None else {"PET_MAX_RESTARTS": restarts}
    variables = [{"name": name, "value": str(value)} for name, value in env.items()]
    coordinator = "worker" if same_template else roles[0][0].lower()
    address = f"{fields.name}-{coordinator}-0-0.{fields.name}"
    fits_label = not fields.name or byte_length(address) <= MAX_LABEL
    variables += [
        _field(name, "annotations", keys.COORDINATOR) if fits_label else {"name": name, "value": address}
        for name in ("MASTER_ADDR", "PET_MASTER_ADDR")
    ]
    variables += [_field(name, "labels", rank) for name in ("RANK", "PET_NODE_RANK")]
    for role, _, role_template in roles:
        if _drop_env(role_template, "MASTER_ADDR", f"{fields.name}-master-0"):
            fields.notes.append(
                f"{role}: MASTER_ADDR: the operator's name of the master is replaced by its address here"
            )
        _add_env(role_template, variables)
    replicated_jobs = [_replicated_job("worker", total, template)]
    if not same_template:
        replicated_jobs = [
            _replicated_job(role.lower(), 1, role_template, replicas=size) for role, size, role_template in roles
        ]
    spec = _spec(fields, replicated_jobs)
    fields.notes.append("success: the set completes when all pods have succeeded, not when the master has")
    # The address of the coordinator becomes the value of a label. An address may be longer than such a value.
    return {**({"coordinator": {"replicatedJob": coordinator}} if fits_label else {}), **spec}, []


def convert_mpi(fields: Fields) -> tuple[JSON, list[JSON]]:
    """The spec of a JobSet whose launcher starts when all workers are ready, and a ConfigMap with their hosts."""
    roles, name = _roles(fields, "spec.mpiReplicaSpecs", ("Launcher", "Worker")), fields.name
    if [role for role, _, _ in roles] != ["Launcher", "Worker"]:
        raise ConvertError("spec.mpiReplicaSpecs: both Launcher and Worker are needed")
    if not name:
        raise ConvertError("metadata.name: Required value: addresses of pods begin with it")
    (_, _, launcher), (_, size, worker) = roles
    if size > _MAX_HOSTS:
        raise ConvertError(f"spec.mpiReplicaSpecs.Worker.replicas: {size}: must be at most {_MAX_HOSTS}")
    if fields.take("spec.mpiImplementation", str, "OpenMPI") != "OpenMPI":
        raise ConvertError("spec.mpiImplementation: only OpenMPI is converted")
    slots = fields.take("spec.slotsPerWorker", int, 1)
    hostfile = "".join(f"{name}-worker-0-{index}.{name} slots={slots}\n" for index in range(size))
    ssh_mount_path = fields.take("spec.sshAuthMountPath", str, _SSH_MOUNT_PATH)
    for template in (launcher, worker):
        secret = {"secretName": f"{name}-ssh", "defaultMode": 0o600}
        _mount(template, {"name": "ssh-auth", "secret": secret}, ssh_mount_path)
    _mount(launcher, {"name": "mpi-hosts", "configMap": {"name": f"{name}-hosts"}}, "/etc/mpi")
    _add_env(launcher, [{"name": key, "value": value} for key, value in _OPEN_MPI.items()])
    containers(worker)[0].setdefault("command", ["/usr/sbin/sshd", "-De"])
    depends_on = [{"name": "worker", "status": "Ready"}]
    replicated_jobs = [
        _replicated_job("worker", size, worker),
        {**_replicated_job("launcher", 1, launcher), "dependsOn": depends_on},
    ]
    fields.notes.append(
        f"ssh: the operator made a key for each MPIJob. Create the Secret {name}-ssh: ssh-keygen -N '' -f id_rsa &&"
        f" kubectl create secret generic {name}-ssh --from-file=id_rsa --from-file=authorized_keys=id_rsa.pub"
    )
    metadata = {"name": f"{name}-hosts", "namespace": fields.metadata["namespace"]}
    metadata = {key: value for key, value in metadata.items() if value}
    hosts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hostfile": hostfile}}
    success = {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    return {"successPolicy": success, **_spec(fields, replicated_jobs)}, [hosts]


def _roles(fields: Fields, path: str, names: tuple[str, ...]) -> list[tuple[str, int, JSON]]:
    """Name, number of pods and pod template of each role that the manifest has."""
    roles = []
    for role in names:
        template = fields.take(f"{path}.{role}.template", dict)
        size = fields.take(f"{path}.{role}.replicas", int, 1)
        policy = fields.take(f"{path}.{role}.restartPolicy", str)
        if template is None:
            continue
        if size < 1:
            fields.notes.append(f"{path}.{role}: left out: it has {size} replicas")
            continue
        containers(template, f"{path}.{role}.template")
        if policy not in {None, "Never"}:
            fields.notes.append(
                f"{path}.{role}.restartPolicy: {policy}: a failed pod restarts the whole set here, at most"
                " failurePolicy.maxRestarts times; failurePolicy.rules tell exit codes apart"
            )
        template["spec"]["restartPolicy"] = "Never"
        roles.append((role, size, template))
    if not roles:
        raise ConvertError(f"{path}: no template of {' or '.join(names)} with a pod")
    return roles


def _spec(fields: Fields, replicated_jobs: list[JSON]) -> JSON:
    """The spec with these ReplicatedJobs, after runPolicy, which both kinds have, is applied to it and to them."""
    spec: JSON = {"failurePolicy": {"maxRestarts": fields.take("spec.runPolicy.backoffLimit", int, _MAX_RESTARTS)}}
    fields.move("spec.runPolicy.suspend", bool, spec, "suspend")
    fields.move("spec.runPolicy.ttlSecondsAfterFinished", int, spec, "ttlSecondsAfterFinished")
    seconds = fields.take("spec.runPolicy.activeDeadlineSeconds", int)
    if seconds is not None:
        fields.notes.append("spec.runPolicy.activeDeadlineSeconds: a limit for each attempt here, of each Job")
        for replicated_job in replicated_jobs:
            replicated_job["template"]["spec"]["activeDeadlineSeconds"] = seconds
    return {**spec, "replicatedJobs": replicated_jobs}


def _replicated_job(name: str, size: int, template: JSON, *, replicas: int = 1) -> JSON:
    job = {"parallelism": size, "completions": size, "backoffLimit": 0, "template": template}
    return {"name": name, "replicas": replicas, "template": {"spec": job}}


def _port(template: JSON) -> Any:
    """The rendezvous port: the port of the template with the operator's port name, else the operator's default."""
    ports = [port for container in containers(template) for port in items(container, "ports")]
    return next((dig(port, "containerPort") for port in ports if dig(port, "name") == _PORT_NAME), _PORT)


def _field(name: str, kind: str, key: str) -> JSON:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{kind}['{key}']"}}}


def _drop_env(template: JSON, name: str, value: str) -> bool:
    """Remove the variable `name` from containers in which it has this value. Returns whether a container had it."""
    is_removed = False
    for container in containers(template):
        variables = container.get("env") or []
        remaining = [entry for entry in variables if (entry.get("name"), entry.get("value")) != (name, value)]
        if len(remaining) < len(variables):
            container["env"], is_removed = remaining, True
    return is_removed


def _add_env(template: JSON, env: list[JSON]) -> None:
    """Insert `env` before the variables of each container, which may refer to it. Variables with the same name stay."""
    for container in containers(template):
        variables = container.get("env") or []
        names = [entry.get("name") for entry in variables]
        container["env"] = [*(entry for entry in env if entry["name"] not in names), *variables]


def _mount(template: JSON, volume: JSON, path: str) -> None:
    """Mount a volume in the first container."""
    template["spec"].setdefault("volumes", []).append(volume)
    containers(template)[0].setdefault("volumeMounts", []).append({"name": volume["name"], "mountPath": path})
