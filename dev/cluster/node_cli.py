"""The command `cluster node`, which causes and ends faults of fake and real nodes."""

# ruff: noqa: T201 - printing is what it is for

import argparse

from dev.cluster import cluster, node_faults
from dev.cluster.errors import UsageError
from dev.cluster.kubectl import run_kubectl
from dev.cluster.real import faults as real_faults
from dev.cluster.real.layout import RealNode, find_node
from dev.cluster.verbs import Commands, add_cluster_flags, add_verb

NODE_EXAMPLES = """examples:
  %(prog)s real-0 --silent         its kubelet ends, its containers run on; the taint comes after 50 s
  %(prog)s real-0 --kill           all its processes end at once; --back starts it again, with its disk as it was
  %(prog)s real-0 --partition      its cable is cut
  %(prog)s real-0 --disk-full      pods are evicted because of it
  %(prog)s node-0003 --silent      its pods neither start nor end, deleted ones stay Terminating; the node gets
                                   the taint node.kubernetes.io/unreachable at once, without the time of detection
  %(prog)s node-0003 --back
  %(prog)s node-0003 --taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute
  %(prog)s node-0003 --untaint node.kubernetes.io/out-of-service"""


def add_node(verbs: Commands) -> None:
    text = "break a node, bring it back, or let it carry a taint"
    parser = add_verb(verbs, "node", text, _node, NODE_EXAMPLES)
    add_cluster_flags(parser)("node", help="name of the node, such as node-0003 or real-0")
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--silent", action="store_true", help="the kubelet does and says nothing any more")
    add("--kill", action="store_true", help="real node: the power is cut")
    add("--partition", action="store_true", help="real node: nothing reaches it, nothing leaves it")
    add("--disk-full", action="store_true", help="real node: no room for volumes of pods")
    add("--drain", action="store_true", help="evict its pods, and let it take no others")
    add("--back", action="store_true", help="end all faults and the drain")
    add("--taint", metavar="KEY[=VALUE]:EFFECT", help="add a taint")
    add("--untaint", metavar="KEY", help="remove the taints of that key")


def _node(arguments: argparse.Namespace) -> int:
    name: str = arguments.node
    taint = node_faults.Taint.parse(arguments.taint) if arguments.taint else None
    found_cluster = cluster.get(arguments.name, state_root=arguments.state_dir)
    real_node = find_node(found_cluster.plan.layout, name)
    with found_cluster.connect() as connection:
        if taint:
            node_faults.add_taint(connection, name, taint)
            state = f"has the taint {arguments.taint}"
        elif arguments.untaint:
            node_faults.remove_taint(connection, name, arguments.untaint)
            state = f"has no taint {arguments.untaint}"
        elif arguments.drain:
            run_kubectl(found_cluster.plan, "drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
            state = "is drained: its pods are gone, and it takes no others"
        elif arguments.back:
            node_faults.uncordon(connection, name)
            real_faults.come_back(real_node, connection) if real_node else node_faults.come_back(connection, name)
            state = "is back"
        elif real_node:
            state = _break_real_node(real_node, arguments)
        elif arguments.silent:
            node_faults.fall_silent(connection, name)
            state = f"is silent and has the taint {node_faults.UNREACHABLE}"
        else:
            raise UsageError(f"node {name} is fake: it has no power, cable or disk. --silent lets it fall silent.")
    print(f"Node {name} {state}.")
    return 0


def _break_real_node(node: RealNode, arguments: argparse.Namespace) -> str:
    """Break a real node. Returns its state, for the message."""
    if arguments.silent:
        real_faults.stop_kubelet(node)
        return f"is silent, and gets the taint {node_faults.UNREACHABLE} after the time of detection, 50 s"
    if arguments.kill:
        real_faults.cut_power(node)
        return "is off"
    if arguments.partition:
        real_faults.cut_cable(node)
        return "is cut off"
    real_faults.fill_disk(node)
    return "has a full disk"
