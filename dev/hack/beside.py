"""`python -m dev.hack.beside KUBECTL...`: says before `make run` how to replace the manager that a cluster already has.

It also says what a second manager, on this machine, cannot do beside that one. It prints nothing if there is no other
manager, or if the cluster does not answer, which the new manager reports itself.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from app.settings import LeaderElectionSettings
from dev.cluster import cluster
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import default_state_root
from dev.local import MANAGER_PROCESS
from kube.clock import now
from manifests.naming import DEPLOYMENT, NAMESPACE

MANAGER = f"deployment/{DEPLOYMENT}"
LEASE = f"lease/{LeaderElectionSettings().resource_name}"

KubernetesObject = Mapping[str, Any]


@dataclass(frozen=True)
class KeptManager:
    """The manager that a local cluster runs, such as that of `make demo`.

    `flags` select the cluster for `jobset cluster`.
    """

    name: str
    process: int
    flags: str


def manager_notice(
    deployment: KubernetesObject,
    lease: KubernetesObject,
    at: datetime,
    kubectl: str,
    kubeconfig: str,
    kept: KeptManager | None = None,
) -> str:
    """Return the notice for people who start another manager; "" if the cluster has no manager.

    `deployment` and `lease` are {} if they do not exist. `kubectl` is the command as text for people. `kept` is the
    manager that the local cluster of `kubeconfig` runs.
    """
    replicas = int((deployment.get("spec") or {}).get("replicas", 0))
    ready = int((deployment.get("status") or {}).get("readyReplicas") or 0)
    holder = _holder_sentence(lease, at)
    if not replicas:
        return holder and f"{holder} {_text_about_kept_manager(kept) if kept else _text_about_other_holder(lease)}"
    leads = f"{holder} The one that starts now only waits." if holder else _FREE
    calls = _CALLED if ready else _NOT_ANSWERED
    flag = f" --kubeconfig={kubeconfig}" if kubeconfig else ""
    run = f" KUBECONFIG={kubeconfig}" if kubeconfig else ""
    return (
        f"A manager is installed in this cluster: {ready} of {replicas} replicas are ready. {leads} {calls}\n"
        "To run this one in its place, without admission (JobSets made meanwhile get no defaults: their pods"
        " have no DNS names; docs/break-glass.md says how to repair them):\n"
        f"  {kubectl} -n {NAMESPACE} scale {MANAGER} --replicas=0 && .venv/bin/jobset webhooks off{flag}\n"
        f"  make run{run} ARGS=--webhooks=false\n"
        "And back:\n"
        f"  {kubectl} -n {NAMESPACE} scale {MANAGER} --replicas={replicas} && .venv/bin/jobset webhooks on{flag}\n"
    )


_FREE = "None holds the lease: the one that starts now takes it, and the installed ones wait."
_CALLED = "The API server calls the webhooks of the installed one."
_NOT_ANSWERED = (
    "The API server calls the webhooks of the installed one, which do not answer:"
    " JobSets can be neither created nor changed."
)


def _text_about_kept_manager(kept: KeptManager) -> str:
    return (
        f"It is the manager of the local cluster {kept.name}, which starts it again whenever it ends. The one that"
        " starts now only waits, and its webhooks are not called.\n"
        "To have that one run the code of this folder as it is now:\n"
        f"  kill {kept.process}\n"
        "To end it with its cluster, and all that is in that:\n"
        f"  .venv/bin/jobset cluster down {kept.flags}\n"
    )


def _text_about_other_holder(lease: KubernetesObject) -> str:
    host = str(lease["spec"]["holderIdentity"]).partition("_")[0]
    location = "on this machine" if host == socket.gethostname() else f"on the machine, or in the pod, {host}"
    return (
        "End that one first: the one that starts now only waits, and its webhooks are not called. It runs"
        f" {location}. There, the first command gives the NUMBER for the second:\n"
        "  pgrep -fa 'jobset manager|cli manager'\n"
        "  kill NUMBER\n"
    )


def _kept_manager(kubeconfig: str) -> KeptManager | None:
    """Return the manager that the local cluster of this kubeconfig runs; None if there is none."""
    root = Path(kubeconfig).absolute().parent
    try:
        local_cluster = cluster.get(root.name, state_root=root.parent)
    except DevclusterError:
        return None
    process = local_cluster.kept_process(MANAGER_PROCESS).get("process")
    if not process:
        return None
    state_flag = "" if root.parent == default_state_root() else f" --state-dir {shlex.quote(str(root.parent))}"
    return KeptManager(root.name, process, f"--name {root.name}{state_flag}")


def _holder_sentence(lease: KubernetesObject, at: datetime) -> str:
    """Return a sentence about the holder of the lease; "" if it is not held, or was not renewed in time."""
    spec = lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not (holder and renewed):
        return ""
    age = (at - datetime.fromisoformat(renewed)).total_seconds()
    if age > spec.get("leaseDurationSeconds", 0):
        return ""
    return f"{holder} holds the lease ({NAMESPACE}/{LEASE.partition('/')[2]}), renewed {max(age, 0):.0f} s ago."


def _get_object(kubectl: Sequence[str], name: str) -> KubernetesObject:
    command = [*kubectl, "-n", NAMESPACE, "get", name, "--ignore-not-found", "--request-timeout=10s", "-o", "json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (kubectl)
    body: KubernetesObject = json.loads(answer.stdout) if answer.returncode == 0 and answer.stdout else {}
    return body


def main(kubectl: Sequence[str]) -> None:
    """Ask the cluster, and print the notice."""
    kubeconfig = os.environ.get("KUBECONFIG", "")
    objects = _get_object(kubectl, MANAGER), _get_object(kubectl, LEASE)
    sys.stderr.write(
        manager_notice(
            *objects, now(), shlex.join(kubectl), kubeconfig, _kept_manager(kubeconfig) if kubeconfig else None
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
