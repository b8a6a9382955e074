"""Runs kubectl as the administrator of a cluster, for operations such as a drain."""

import subprocess

from dev.cluster.components import Plan
from dev.cluster.errors import DevclusterError


def run_kubectl(plan: Plan, *arguments: str) -> str:
    """The output of kubectl. Raises DevclusterError, with the error output of kubectl, if it fails."""
    command = [str(plan.binaries / "kubectl"), f"--kubeconfig={plan.layout.kubeconfig}", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own binary
    if answer.returncode:
        raise DevclusterError(f"kubectl {' '.join(arguments)} failed: {answer.stderr.strip()}")
    return answer.stdout
