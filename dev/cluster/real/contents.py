"""Waits until the real nodes of a new cluster are ready, and installs DNS in the cluster."""

from pathlib import Path

from dev.cluster import rest
from dev.cluster.components import ADMIN, Plan
from dev.cluster.errors import DevclusterError
from dev.cluster.kubectl import run_kubectl
from dev.cluster.nodes import wait_usable
from dev.cluster.real.layout import real_nodes
from dev.cluster.supervisor import tail

DNS = Path(__file__).with_name("coredns.yaml")
DNS_SECONDS = 60
LOG_LINES = 5


def prepare_nodes(plan: Plan) -> None:
    """Wait until the real nodes can be used and the cluster has DNS."""
    run_kubectl(plan, "apply", "--filename", str(DNS))
    names = {node.name for node in real_nodes(plan.layout, plan.spec.real_nodes)}
    tls = rest.client_tls(plan.layout.pki, ADMIN)
    with rest.Connection(plan.ports["kube-apiserver"], tls) as connection:
        try:
            wait_usable(connection, names, "logs of the node, such as real-0 and real-0-kubelet,")
        except DevclusterError as error:
            lines = [f"{name}: {line}" for name in sorted(names) for line in tail(plan.layout.log(name), LOG_LINES)]
            raise DevclusterError("\n".join([str(error), "Last lines of the nodes:", *lines])) from error
    run_kubectl(plan, "--namespace=kube-system", "rollout", "status", "deploy/coredns", f"--timeout={DNS_SECONDS}s")
