"""The `cluster` command: up, fetch, down, status, kubeconfig, logs, node. Parses, calls, prints; it decides nothing.

Exit codes: 0 done, 1 failed (one clear message on standard error), 2 wrong usage.
"""

# ruff: noqa: T201 - printing is what it is for

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from dev.cluster import cluster, node_faults
from dev.cluster.assets import Sources, locate
from dev.cluster.errors import DevclusterError, UsageError
from dev.cluster.spec import DEFAULT_CAPACITY, ClusterSpec, FakeNodes, Layout
from dev.cluster.supervisor import tail
from kube.model.quantity import parse_quantity

UP_EXAMPLES = """examples:
  %(prog)s                                      API server, controllers, scheduler; no nodes
  %(prog)s --nodes 20 --label-every rack=10     20 fake nodes in two racks: rack-0, rack-1
  %(prog)s --nodes 4 --capacity nvidia.com/gpu=8
  %(prog)s --name small --profile api           only etcd and kube-apiserver, beside the one above

Pods run on the fake nodes until annotations tell them how to end (on the pod or on its template):
  kwok.jobset.dev/exit-code=1       end now with this code in every container (0: Succeeded)
  kwok.jobset.dev/run-seconds=30    end after that time, with exit-code or 0
  kwok.jobset.dev/ready=false       run without being Ready until removed
  kwok.jobset.dev/grace-seconds=5   stay Terminating for that long when deleted

binaries: --assets, else the cache in $XDG_CACHE_HOME/jobset-devcluster, else the official releases (checked against
their published SHA-256), else a build from pinned Go modules (about 12 minutes on 2 cores, once)."""
NODE_EXAMPLES = """examples:
  %(prog)s node-0003 --silent      its pods neither start nor end, deleted ones stay Terminating; the node gets
                                   the taint node.kubernetes.io/unreachable at once, without the time of detection
  %(prog)s node-0003 --back
  %(prog)s node-0003 --taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute
  %(prog)s node-0003 --untaint node.kubernetes.io/out-of-service"""
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 (it has no public name)
COLUMNS = ("name", "phase", "profile", "nodes", "server", "kubeconfig")


def add_cluster(commands: Commands) -> None:
    """Register `cluster` with its subcommands; `handler(arguments)` of each gives the exit code."""
    parser = commands.add_parser(
        "cluster",
        help="run a local Kubernetes control plane with fake nodes",
        description="Run a local Kubernetes control plane (etcd, API server, controllers, scheduler) with fake nodes.",
    )
    verbs = parser.add_subparsers(dest="cluster_command", required=True, metavar="COMMAND")
    _add_up(_verb(verbs, "up", "start a cluster and wait until it is ready", _up, UP_EXAMPLES))
    _add_assets(_verb(verbs, "fetch", "fetch or build the binaries and print their folder", _fetch))
    _add_cluster_flags(_verb(verbs, "down", "stop a cluster and remove its state", _down))
    add = _verb(verbs, "status", "list clusters", _status).add_argument
    add("--name", default="", help="only this cluster (default: all)")
    _add_state_dir(add)
    add("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    add = _add_cluster_flags(
        _verb(verbs, "kubeconfig", "print the path of the administrator's kubeconfig", _kubeconfig)
    )
    add("--raw", action="store_true", help="print the contents instead of the path")
    add = _add_cluster_flags(_verb(verbs, "logs", "print the last log lines of the cluster's processes", _logs))
    add("component", nargs="?", help="such as kube-apiserver, supervisor; default: all of them")
    add("--lines", type=_positive, default=20, metavar="N", help="lines of each (default: 20)")
    text = "make a fake node fall silent, come back, or carry a taint"
    _add_node(_verb(verbs, "node", text, _node, NODE_EXAMPLES))


def _add_up(parser: argparse.ArgumentParser) -> None:
    add = _add_cluster_flags(parser)
    add("--profile", choices=("full", "api"), default="full", help="api: only etcd and kube-apiserver (default: full)")
    add("--nodes", type=_count, default=0, metavar="N", help="how many fake nodes (default: 0)")
    text = "label node i with KEY=<last part of KEY>-<i // SIZE>; repeatable"
    add("--label-every", type=_group, action="append", default=[], metavar="KEY=SIZE", help=text)
    default = ", ".join(f"{key}={value}" for key, value in DEFAULT_CAPACITY.items())
    text = f"capacity of every node, repeatable (default: {default})"
    add("--capacity", type=_resource, action="append", default=[], metavar="RESOURCE=QUANTITY", help=text)
    add("--port", type=_count, default=0, metavar="PORT", help="of the API server (default: a free one)")
    add("--qps", type=_positive, default=1000, help="client limit of the controllers (default: 1000)")
    text = "leave out the Workload, PodGroup and CompositePodGroup APIs"
    add("--no-gang-scheduling", action="store_true", help=text)
    text = "of API server, controller manager and scheduler; repeatable"
    add("--feature-gate", type=_gate, action="append", default=[], metavar="NAME=true|false", help=text)
    add("--no-audit", action="store_true", help="write no audit log")
    _add_assets(parser)


def _add_node(parser: argparse.ArgumentParser) -> None:
    _add_cluster_flags(parser)("node", help="name of the node, such as node-0003")
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--silent", action="store_true", help="the kubelet does and says nothing any more")
    add("--back", action="store_true", help="the kubelet works again")
    add("--taint", metavar="KEY[=VALUE]:EFFECT", help="add a taint")
    add("--untaint", metavar="KEY", help="remove the taints of that key")


def _verb(
    verbs: Commands, name: str, text: str, run: Callable[[argparse.Namespace], int], epilog: str | None = None
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=_reporting(run))
    return parser


def _add_cluster_flags(parser: argparse.ArgumentParser) -> Callable[..., argparse.Action]:
    """Add the flags that say which cluster; gives what adds further ones."""
    parser.add_argument("--name", default="default", help="which cluster (default: default)")
    _add_state_dir(parser.add_argument)
    return parser.add_argument


def _add_state_dir(add: Callable[..., argparse.Action]) -> None:
    text = "holds one folder per cluster (default: $XDG_STATE_HOME/jobset-devcluster)"
    add("--state-dir", type=Path, metavar="DIR", help=text)


def _add_assets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--assets", type=Path, metavar="DIR", help="folder that has all the binaries")


def _reporting(handler: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        try:
            return handler(arguments)
        except DevclusterError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2 if isinstance(error, UsageError) else 1
        except KeyboardInterrupt:
            print("interrupted: what was started is stopped again", file=sys.stderr)
            return 1

    return run


def _up(arguments: argparse.Namespace) -> int:
    spec = ClusterSpec(
        name=arguments.name,
        profile=arguments.profile,
        nodes=FakeNodes(
            count=arguments.nodes, label_every=dict(arguments.label_every), capacity=dict(arguments.capacity)
        ),
        port=arguments.port,
        gang=not arguments.no_gang_scheduling,
        feature_gates=dict(arguments.feature_gate),
        qps=arguments.qps,
        audit=not arguments.no_audit,
    )
    ended = {"failed", "gone", "stale"}
    for before in cluster.statuses(state_root=arguments.state_dir):
        if before["name"] == spec.name and before["phase"] in ended:
            print(f"Cluster {spec.name} had ended. It starts without the objects and logs that it had.")
    found = cluster.up(spec, sources=Sources(assets=arguments.assets), state_root=arguments.state_dir)
    if found.existed:
        print(f"Cluster {spec.name} was already up at {found.server}; its options stay as they are.")
        if found.plan.spec != spec:
            print("It was started with other options than these: `down` and `up` to change them.")
    else:
        print(f"Cluster {spec.name} is up at {found.server}.")
    print(f"  export KUBECONFIG={found.kubeconfig}\n  {found.kubectl} get nodes")
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    print(locate(Sources(assets=arguments.assets)))
    return 0


def _down(arguments: argparse.Namespace) -> int:
    if cluster.down(arguments.name, state_root=arguments.state_dir):
        print(f"Cluster {arguments.name} is down, its state is removed.")
    else:
        print(f"Cluster {arguments.name} was not up.")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    known = cluster.statuses(state_root=arguments.state_dir)
    found = [entry for entry in known if arguments.name in ("", entry["name"])]
    if arguments.name and not found:
        names = ", ".join(entry["name"] for entry in known) or "none"
        raise DevclusterError(f"there is no cluster {arguments.name!r}; known are: {names}.")
    if arguments.output == "json":
        print(json.dumps(found, indent=2))
        return 0
    rows = [COLUMNS, *(tuple(str(entry[column]) for column in COLUMNS) for entry in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows if found else ():
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for entry in found:
        if entry["message"]:
            print(f"\n{entry['name']}: {entry['message']}")
    if not found:
        print("No clusters.")
    return 0


def _kubeconfig(arguments: argparse.Namespace) -> int:
    path = cluster.get(arguments.name, state_root=arguments.state_dir).kubeconfig
    print(path.read_text() if arguments.raw else path)
    return 0


def _logs(arguments: argparse.Namespace) -> int:
    layout = Layout.for_name(arguments.name, arguments.state_dir)
    paths = sorted(layout.logs.glob("*.log"))
    if not paths:
        raise DevclusterError(
            f"cluster {arguments.name!r} has no logs in {layout.logs}: it is not up, or was taken down."
        )
    if arguments.component:
        chosen = [path for path in paths if path.stem == arguments.component]
        if not chosen:
            names = ", ".join(path.stem for path in paths)
            raise DevclusterError(
                f"cluster {arguments.name!r} has no component {arguments.component!r}: it has {names}."
            )
        paths = chosen
    for path in paths:
        if len(paths) > 1:
            print(f"==> {path} <==")
        print("\n".join(tail(path, arguments.lines)))
    return 0


def _node(arguments: argparse.Namespace) -> int:
    taint = node_faults.Taint.parse(arguments.taint) if arguments.taint else None
    with cluster.get(arguments.name, state_root=arguments.state_dir).connect() as connection:
        if arguments.silent:
            node_faults.fall_silent(connection, arguments.node)
            done = f"is silent and has the taint {node_faults.UNREACHABLE}"
        elif arguments.back:
            node_faults.come_back(connection, arguments.node)
            done = "is back"
        elif taint:
            node_faults.add_taint(connection, arguments.node, taint)
            done = f"has the taint {arguments.taint}"
        else:
            node_faults.remove_taint(connection, arguments.node, arguments.untaint)
            done = f"has no taint {arguments.untaint}"
    print(f"Node {arguments.node} {done}.")
    return 0


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _count(text: str) -> int:
    number = _whole(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 65535")
    return number


def _positive(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _pair(text: str, form: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not (key and mark and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form {form}")
    return key, value


def _resource(text: str) -> tuple[str, str]:
    name, amount = _pair(text, "RESOURCE=QUANTITY")
    if (parsed := parse_quantity(amount)) is None or parsed < 0:
        raise argparse.ArgumentTypeError(f"{amount!r} is no quantity: write one such as 8, 500m or 64Gi after the =")
    return name, amount


def _group(text: str) -> tuple[str, int]:
    key, size = _pair(text, "KEY=SIZE")
    if not size.isdecimal() or int(size) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} needs a group size of at least 1 after the =")
    return key, int(size)


def _gate(text: str) -> tuple[str, bool]:
    name, value = _pair(text, "NAME=true|false")
    if value not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} needs true or false after the =")
    return name, value == "true"


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m dev.cluster cluster ...`, for use without the `jobset` command."""
    parser = argparse.ArgumentParser(prog="devcluster")
    add_cluster(parser.add_subparsers(dest="command", required=True, metavar="COMMAND"))
    arguments = parser.parse_args(argv)
    code: int = arguments.handler(arguments)
    return code
