"""Runs commands inside a real node, with the node's root folder, programs and network."""

import subprocess
from typing import IO

from dev.cluster.errors import DevclusterError
from dev.cluster.real import config
from dev.cluster.real.layout import RealNode

CTR = (f"{config.PROGRAMS}/bin/ctr", "--address", config.SOCKET, "--namespace", "k8s.io")
"""The command of containerd, with the kubelet's namespace, as in `run_in_node(node, *CTR, "images", "list")`."""


def node_process(node: RealNode) -> int:
    """The process id that the node's PID 1 has on the machine. Raises DevclusterError while the node is off."""
    try:
        return int(node.process.read_text())
    except FileNotFoundError:
        raise DevclusterError(
            f"node {node.name} is off: `jobset cluster node {node.name} --back` starts it, "
            f"and its log says how it ended (`jobset cluster logs {node.name}`)."
        ) from None


def run_in_node(node: RealNode, *command: str, stdin: IO[bytes] | None = None) -> str:
    """Run a command of the node and return its output. Raises DevclusterError, with its error output, if it fails."""
    answer = subprocess.run(  # noqa: S603 - our own commands
        ["nsenter", f"--target={node_process(node)}", "--all", "--", *command],  # noqa: S607 - of the distribution
        stdin=stdin or subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if answer.returncode:
        raise DevclusterError(f"`{' '.join(command)}` failed on node {node.name}: {answer.stderr.strip()[-1500:]}")
    return answer.stdout
