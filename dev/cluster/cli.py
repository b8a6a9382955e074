"""The `cluster` command: up, fetch, down, status, kubeconfig, logs, node, image.

Exit codes: 0 done, 1 failed (one clear message on standard error), 2 wrong usage.
"""

# ruff: noqa: T201 - printing is what it is for

import argparse
import json
from pathlib import Path

from dev.cluster import cluster
from dev.cluster.assets import Sources, locate
from dev.cluster.errors import DevclusterError
from dev.cluster.image_cli import add_image
from dev.cluster.minors import MINORS, locate_minor
from dev.cluster.node_cli import add_node
from dev.cluster.real.assets import locate_node_assets
from dev.cluster.real.preflight import real_nodes_missing
from dev.cluster.spec import DEFAULT_CAPACITY, ClusterSpec, FakeNodes, Layout
from dev.cluster.supervisor import tail
from dev.cluster.verbs import Commands, add_cluster_flags, add_state_dir, add_verb
from kube.model.quantity import parse_quantity

UP_EXAMPLES = """examples:
  %(prog)s                                      API server, controllers, scheduler; no nodes
  %(prog)s --nodes 20 --label-every rack=10     20 fake nodes in two racks: rack-0, rack-1
  %(prog)s --nodes 4 --capacity nvidia.com/gpu=8
  %(prog)s --name small --profile api           only etcd and kube-apiserver, beside the one above
  %(prog)s --real-nodes 2                       two nodes that run containers, in namespaces of this machine
  %(prog)s --real-nodes 2 --nodes 600           the fake ones have the taint kwok.x-k8s.io/node=fake:NoSchedule

Real nodes (real-0, real-1, ...) have containerd, a kubelet, kube-proxy, pod networking and DNS. They reach no other
network: images are loaded, not pulled. They need Linux and root, and share the machine's processors, memory and disk.
--label-every counts on from the fake nodes.

Pods run on the fake nodes until annotations tell them how to end (on the pod or on its template):
  kwok.jobset.dev/exit-code=1       end now with this code in every container (0: Succeeded)
  kwok.jobset.dev/run-seconds=30    end after that time, with exit-code or 0
  kwok.jobset.dev/ready=false       run without being Ready until removed
  kwok.jobset.dev/grace-seconds=5   stay Terminating for that long when deleted

binaries: --assets, else the cache in $XDG_CACHE_HOME/jobset-devcluster, else the official releases (checked against
their published SHA-256), else a build from pinned Go modules (about 12 minutes on 2 cores, once)."""
COLUMNS = ("name", "phase", "profile", "nodes", "server", "kubeconfig")


def add_cluster(commands: Commands) -> None:
    """Register `cluster` with its subcommands. `handler(arguments)` of a subcommand returns the exit code."""
    parser = commands.add_parser(
        "cluster",
        help="run a local Kubernetes control plane with fake or real nodes",
        description="Run a local Kubernetes control plane (etcd, API server, controllers, scheduler) and its nodes.",
    )
    verbs = parser.add_subparsers(dest="cluster_command", required=True, metavar="COMMAND")
    _add_up(add_verb(verbs, "up", "start a cluster and wait until it is ready", _up, UP_EXAMPLES))
    parser = add_verb(verbs, "fetch", "fetch or build the binaries and print their folder", _fetch)
    _add_assets(parser)
    parser.add_argument("--real-nodes", action="store_true", help="those of real nodes, too (4 minutes more)")
    add_cluster_flags(add_verb(verbs, "down", "stop a cluster and remove its state", _down))
    add = add_verb(verbs, "status", "list clusters", _status).add_argument
    add("--name", default="", help="only this cluster (default: all)")
    add_state_dir(add)
    add("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    add = add_cluster_flags(
        add_verb(verbs, "kubeconfig", "print the path of the administrator's kubeconfig", _kubeconfig)
    )
    add("--raw", action="store_true", help="print the contents instead of the path")
    add = add_cluster_flags(add_verb(verbs, "logs", "print the last log lines of the cluster's processes", _logs))
    add("component", nargs="?", help="such as kube-apiserver, supervisor; default: all of them")
    add("--lines", type=_positive_number, default=20, metavar="N", help="lines of each (default: 20)")
    add_node(verbs)
    add_image(verbs)


def _add_up(parser: argparse.ArgumentParser) -> None:
    add = add_cluster_flags(parser)
    add("--profile", choices=("full", "api"), default="full", help="api: only etcd and kube-apiserver (default: full)")
    add("--nodes", type=_count, default=0, metavar="N", help="how many fake nodes (default: 0)")
    text = "how many nodes that run containers: kubelet, containerd, kube-proxy (default: 0)"
    add("--real-nodes", type=_count, default=0, metavar="N", help=text)
    text = "label node i with KEY=<last part of KEY>-<i // SIZE>; repeatable"
    add("--label-every", type=_group, action="append", default=[], metavar="KEY=SIZE", help=text)
    default = ", ".join(f"{key}={value}" for key, value in DEFAULT_CAPACITY.items())
    text = f"capacity of every node, repeatable (default: {default})"
    add("--capacity", type=_resource, action="append", default=[], metavar="RESOURCE=QUANTITY", help=text)
    add("--port", type=_count, default=0, metavar="PORT", help="of the API server (default: a free one)")
    add("--qps", type=_positive_number, default=1000, help="client limit of the controllers (default: 1000)")
    text = "leave out the Workload, PodGroup and CompositePodGroup APIs, which Kubernetes before 1.37 has not"
    add("--no-gang-scheduling", action="store_true", help=text)
    text = "of API server, controller manager and scheduler; repeatable"
    add("--feature-gate", type=_gate, action="append", default=[], metavar="NAME=true|false", help=text)
    add("--no-audit", action="store_true", help="write no audit log")
    _add_assets(parser)


def _add_assets(parser: argparse.ArgumentParser) -> None:
    add = parser.add_mutually_exclusive_group().add_argument
    add("--assets", type=Path, metavar="DIR", help="folder that has all the binaries")
    add("--kubernetes", choices=list(MINORS), help="an older control plane (7 minutes more, once; default: the newest)")


def _sources(arguments: argparse.Namespace) -> Sources:
    """The sources of binaries that the flags choose."""
    if arguments.kubernetes:
        return Sources(assets=locate_minor(arguments.kubernetes, Sources()))
    return Sources(assets=arguments.assets)


def _up(arguments: argparse.Namespace) -> int:
    spec = ClusterSpec(
        name=arguments.name,
        profile=arguments.profile,
        nodes=FakeNodes(
            count=arguments.nodes, label_every=dict(arguments.label_every), capacity=dict(arguments.capacity)
        ),
        real_nodes=arguments.real_nodes,
        port=arguments.port,
        gang=not arguments.no_gang_scheduling,
        feature_gates=dict(arguments.feature_gate),
        qps=arguments.qps,
        audit=not arguments.no_audit,
    )
    final_phases = {"failed", "gone", "stale"}
    for known_cluster in cluster.statuses(state_root=arguments.state_dir):
        if known_cluster["name"] == spec.name and known_cluster["phase"] in final_phases:
            print(f"Cluster {spec.name} had ended. It starts without the objects and logs that it had.")
    started_cluster = cluster.up(spec, sources=_sources(arguments), state_root=arguments.state_dir)
    if started_cluster.existed:
        print(f"Cluster {spec.name} was already up at {started_cluster.server}; its options stay as they are.")
        if started_cluster.plan.spec != spec:
            print("It was started with other options than these: `down` and `up` to change them.")
    else:
        print(f"Cluster {spec.name} is up at {started_cluster.server}.")
    print(f"  export KUBECONFIG={started_cluster.kubeconfig}\n  {started_cluster.kubectl} get nodes")
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    sources = _sources(arguments)
    if arguments.real_nodes:
        if missing := real_nodes_missing():
            raise DevclusterError(missing)
        locate_node_assets(sources)
    print(locate(sources))
    return 0


def _down(arguments: argparse.Namespace) -> int:
    if cluster.down(arguments.name, state_root=arguments.state_dir):
        print(f"Cluster {arguments.name} is down, its state is removed.")
    else:
        print(f"Cluster {arguments.name} was not up.")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    clusters = cluster.statuses(state_root=arguments.state_dir)
    shown_clusters = [entry for entry in clusters if arguments.name in ("", entry["name"])]
    if arguments.name and not shown_clusters:
        names = ", ".join(entry["name"] for entry in clusters) or "none"
        raise DevclusterError(f"there is no cluster {arguments.name!r}; known are: {names}.")
    if arguments.output == "json":
        print(json.dumps(shown_clusters, indent=2))
        return 0
    rows = [COLUMNS, *(tuple(str(entry[column]) for column in COLUMNS) for entry in shown_clusters)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows if shown_clusters else ():
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for entry in shown_clusters:
        if entry["message"]:
            print(f"\n{entry['name']}: {entry['message']}")
    if not shown_clusters:
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
        component_paths = [path for path in paths if path.stem == arguments.component]
        if not component_paths:
            names = ", ".join(path.stem for path in paths)
            raise DevclusterError(
                f"cluster {arguments.name!r} has no component {arguments.component!r}: it has {names}."
            )
        paths = component_paths
    for path in paths:
        if len(paths) > 1:
            print(f"==> {path} <==")
        print("\n".join(tail(path, arguments.lines)))
    return 0


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _count(text: str) -> int:
    number = _whole_number(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 65535")
    return number


def _positive_number(text: str) -> int:
    number = _whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _pair(text: str, form: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (key and separator and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form {form}")
    return key, value


def _resource(text: str) -> tuple[str, str]:
    name, amount = _pair(text, "RESOURCE=QUANTITY")
    if (parsed := parse_quantity(amount)) is None or parsed < 0:
        raise argparse.ArgumentTypeError(f"{amount!r} is not a quantity: write one such as 8, 500m or 64Gi after the =")
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
