"""Makes the command lines, configuration files and readiness checks of the processes of a control plane.

Flags are those of Kubernetes 1.33 to 1.37, etcd 3.7 and kwok 0.8.
"""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import rest
from dev.cluster.errors import DevclusterError
from dev.cluster.real import layout as real
from dev.cluster.spec import GANG_GATES, GANG_RUNTIME_CONFIG, ClusterSpec, Layout

ADMIN = "admin"
STAGES = Path(__file__).with_name("stages.yaml")
NODE_ANNOTATION = "kwok.x-k8s.io/node"
ETCD_SOCKET, ETCD_PEER_SOCKET = "unix://etcd.sock", "unix://etcd-peer.sock"
"""Sockets in the state folder, which is the working directory of each process. Only its owner can enter the folder.

So etcd needs no TLS, which would take a third of its processor time. Its health and metrics, which hold no objects, are
served without credentials at a port of this machine.
"""

# Clients of the API server, with the user and the groups that give them their rights. kwok has no role of its own.
CLIENTS = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ("system:masters",)),
    ADMIN: ("kubernetes-admin", ("system:masters",)),
}
KUBELET_CLIENT = "kubelet-client"
"""User name of the API server for kubelets."""


@dataclass(frozen=True)
class Component:
    """One process. Processes start by ascending `rank` and stop by descending `rank`, those of equal rank together."""

    name: str
    argv: tuple[str, ...]
    rank: int
    is_ready: Callable[[], bool]


@dataclass(frozen=True)
class Plan:
    """The inputs of the command lines. `binaries`: folder of executables. `node_assets`: folder of programs of nodes.

    `gang`: whether the feature gates and API versions of gangs are on.
    """

    spec: ClusterSpec
    layout: Layout
    binaries: Path
    ports: dict[str, int]
    node_assets: str = ""
    gang: bool = True

    def as_json(self) -> str:
        return json.dumps(
            {
                "spec": self.spec.as_json(),
                "binaries": str(self.binaries),
                "ports": self.ports,
                "nodeAssets": self.node_assets,
                "gang": self.gang,
            },
            indent=1,
        )

    @classmethod
    def read(cls, layout: Layout) -> Plan:
        """The stored plan of a cluster. Raises DevclusterError if it is incomplete, or from another version."""
        try:
            data = json.loads(layout.record.read_text())
            spec = ClusterSpec.from_json(data["spec"])
            return cls(spec, layout, Path(data["binaries"]), data["ports"], data["nodeAssets"], data["gang"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DevclusterError(
                f"stale state folder: {layout.record} cannot be used ({type(error).__name__}: {error}).\n"
                f"Remove what is left of it with `jobset cluster down --name {layout.root.name}`."
            ) from error

    @property
    def feature_gates(self) -> dict[str, bool]:
        """The feature gates of all three Kubernetes components."""
        gang = dict.fromkeys(GANG_GATES, True) if self.gang else {}
        return {**gang, **self.spec.feature_gates}

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    def kubeconfig(self, client: str) -> Path:
        return self.layout.kubeconfig if client == ADMIN else self.layout.config / f"{client}.kubeconfig"


def port_names(spec: ClusterSpec) -> list[str]:
    """The names of the listeners that need a port."""
    names = ["etcd", "kube-apiserver"]
    return names if spec.profile == "api" else [*names, "kube-controller-manager", "kube-scheduler", "kwok"]


def components(plan: Plan) -> list[Component]:
    """The processes of the cluster's profile in start order."""
    admin = rest.client_tls(plan.layout.pki, ADMIN)
    api_port = plan.ports["kube-apiserver"]

    def is_api_server_ready() -> bool:
        # /readyz does not wait for the post-start hook that creates the system namespaces.
        return rest.answers(api_port, "/readyz", admin) and rest.answers(api_port, "/api/v1/namespaces/default", admin)

    processes = [
        Component("etcd", _etcd(plan), 0, _readiness_probe(plan.ports["etcd"], "/health", None)),
        # The API server dials until etcd answers. Starting both at once saves a second.
        Component("kube-apiserver", _api_server(plan), 1, is_api_server_ready),
    ]
    if plan.spec.profile == "full":
        processes += [
            Component(name, command_line(plan), 2, _readiness_probe(plan.ports[name], "/healthz", tls))
            for name, command_line, tls in (
                ("kube-controller-manager", _controller_manager, admin),
                ("kube-scheduler", _scheduler, admin),
                ("kwok", _kwok, None),
            )
        ]
    return [*processes, *_real_nodes(plan)]


def _real_nodes(plan: Plan) -> list[Component]:
    """The processes that run real nodes, their network first."""

    def command(module: str, *arguments: object) -> tuple[str, ...]:
        return (sys.executable, "-m", f"dev.cluster.real.{module}", str(plan.layout.root), *map(str, arguments))

    nodes = real.real_nodes(plan.layout, plan.spec.real_nodes)
    return [
        *(Component("network", command("network"), 1, real.network_process(plan.layout).exists) for _ in nodes[:1]),
        *(Component(node.name, command("node", node.index), 3, node.process.exists) for node in nodes),
    ]


def write_configs(plan: Plan) -> None:
    """Write the configuration files that the command lines refer to."""
    documents = {"audit-policy.json": _audit_policy(plan.spec)}
    if plan.spec.real_nodes:
        documents["egress.json"] = _egress_config()
    if plan.spec.profile == "full":
        documents |= {"scheduler.json": _scheduler_config(plan), "kwok.json": _kwok_config(plan)}
    for name, document in documents.items():
        (plan.layout.config / name).write_text(json.dumps(document, indent=1))


def _readiness_probe(port: int, path: str, tls: ssl.SSLContext | None) -> Callable[[], bool]:
    return lambda: rest.answers(port, path, tls)


def _flags(binary: Path, flags: dict[str, object]) -> tuple[str, ...]:
    return (str(binary), *(f"--{name}={value}" for name, value in flags.items()))


def _feature_gate_flags(plan: Plan) -> dict[str, object]:
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in plan.feature_gates.items())
    return {"feature-gates": gates} if gates else {}


def _etcd(plan: Plan) -> tuple[str, ...]:
    return _flags(
        plan.binaries / "etcd",
        {
            "name": "local",
            "data-dir": plan.layout.etcd,
            "listen-client-urls": ETCD_SOCKET,
            "advertise-client-urls": ETCD_SOCKET,
            "listen-peer-urls": ETCD_PEER_SOCKET,
            "initial-advertise-peer-urls": ETCD_PEER_SOCKET,
            "initial-cluster": f"local={ETCD_PEER_SOCKET}",
            # Also answers whether etcd is healthy.
            "listen-metrics-urls": f"http://127.0.0.1:{plan.ports['etcd']}",
            # The data ends with the cluster, so there is no reason to wait for the disk.
            "unsafe-no-fsync": "true",
            "quota-backend-bytes": 8 * 1024**3,
            "log-level": "warn",
        },
    )


def _api_server(plan: Plan) -> tuple[str, ...]:
    pki, spec = plan.layout.pki, plan.spec
    flags: dict[str, object] = {
        "bind-address": "127.0.0.1",
        "secure-port": plan.ports["kube-apiserver"],
        "etcd-servers": ETCD_SOCKET,
        "tls-cert-file": pki / "serving.crt",
        "tls-private-key-file": pki / "serving.key",
        "client-ca-file": pki / "ca.crt",
        "authorization-mode": "Node,RBAC" if spec.real_nodes else "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": pki / "service-accounts.key",
        "service-account-signing-key-file": pki / "service-accounts.key",
        "service-cluster-ip-range": "10.96.0.0/12",
        # Without kube-proxy, the API server reaches a webhook's Service only by its EndpointSlice.
        "enable-aggregator-routing": "true",
        "allow-privileged": "true",
        **(_real_node_flags(plan) if spec.real_nodes else _FAKE_NODE_FLAGS),
        **_feature_gate_flags(plan),
    }
    if plan.gang:
        flags["runtime-config"] = ",".join(GANG_RUNTIME_CONFIG)
    if spec.admission_config:
        flags["admission-control-config-file"] = spec.admission_config
    if spec.audit:
        flags |= {
            "audit-policy-file": plan.layout.config / "audit-policy.json",
            "audit-log-path": plan.layout.audit_log,
            "audit-log-maxsize": spec.audit_mib,
            "audit-log-maxbackup": 1,
        }
    return _flags(plan.binaries / "kube-apiserver", flags)


_FAKE_NODE_FLAGS = {
    # Pods are fake, so waiting for their token would only slow tests down.
    "disable-admission-plugins": "ServiceAccount",
    # A loopback address cannot be published as an endpoint.
    "endpoint-reconciler-type": "none",
}


def _real_node_flags(plan: Plan) -> dict[str, object]:
    """Flags of the API server in a cluster with real nodes."""
    pki = plan.layout.pki
    return {
        "enable-admission-plugins": "NodeRestriction",
        # The address at which nodes and pods reach the API server. `real.network` forwards their connections.
        "advertise-address": real.GATEWAY.ip,
        "egress-selector-config-file": plan.layout.config / "egress.json",
        "kubelet-client-certificate": pki / f"{KUBELET_CLIENT}.crt",
        "kubelet-client-key": pki / f"{KUBELET_CLIENT}.key",
        "kubelet-preferred-address-types": "InternalIP",
    }


def _egress_config() -> dict[str, object]:
    """A configuration by which connections to nodes and pods go through `real.network`, and others are direct.

    It does not name etcd: the API server would connect to it by TCP.
    """
    connections = {
        "cluster": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": real.EGRESS}}},
        "controlplane": {"proxyProtocol": "Direct"},
    }
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": name, "connection": connection} for name, connection in connections.items()],
    }


def _controller_manager(plan: Plan) -> tuple[str, ...]:
    pki, spec = plan.layout.pki, plan.spec
    return _flags(
        plan.binaries / "kube-controller-manager",
        {
            "kubeconfig": plan.kubeconfig("kube-controller-manager"),
            "bind-address": "127.0.0.1",
            "secure-port": plan.ports["kube-controller-manager"],
            "tls-cert-file": pki / "serving.crt",
            "tls-private-key-file": pki / "serving.key",
            "leader-elect": "false",
            "use-service-account-credentials": "true",
            "service-account-private-key-file": pki / "service-accounts.key",
            "root-ca-file": pki / "ca.crt",
            "kube-api-qps": spec.qps,
            "kube-api-burst": 2 * spec.qps,
            "concurrent-job-syncs": 20,
            # Without real nodes, fake nodes renew a Lease every 50 s (see kwok's configuration). Kubelets do every 10
            # s.
            "node-monitor-grace-period": "50s" if spec.real_nodes else "300s",
            "node-monitor-period": "1s",
            **_feature_gate_flags(plan),
        },
    )


def _scheduler(plan: Plan) -> tuple[str, ...]:
    return _flags(
        plan.binaries / "kube-scheduler",
        {
            "config": plan.layout.config / "scheduler.json",
            "bind-address": "127.0.0.1",
            "secure-port": plan.ports["kube-scheduler"],
            "tls-cert-file": plan.layout.pki / "serving.crt",
            "tls-private-key-file": plan.layout.pki / "serving.key",
            **_feature_gate_flags(plan),
        },
    )


def _kwok(plan: Plan) -> tuple[str, ...]:
    return (
        str(plan.binaries / "kwok"),
        f"--config={STAGES}",
        f"--config={plan.layout.config / 'kwok.json'}",
        f"--kubeconfig={plan.kubeconfig('kwok')}",
        f"--server-address=127.0.0.1:{plan.ports['kwok']}",
    )


def _audit_policy(spec: ClusterSpec) -> dict[str, object]:
    rules: list[dict[str, object]] = [{"level": "Metadata"}]
    if spec.audit_bodies:
        resources = [name.partition(".") for name in spec.audit_bodies]
        rules.insert(
            0,
            {
                "level": "RequestResponse",
                "verbs": ["create", "update", "patch", "delete", "deletecollection"],
                "resources": [{"group": group, "resources": [resource]} for resource, _, group in resources],
            },
        )
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": rules,
    }


def _scheduler_config(plan: Plan) -> dict[str, object]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(plan.kubeconfig("kube-scheduler")),
            "qps": plan.spec.qps,
            "burst": 2 * plan.spec.qps,
        },
        "leaderElection": {"leaderElect": False},
        # A pod that did not fit is tried again soon, since tests wait for it.
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
    }


def _kwok_config(plan: Plan) -> dict[str, object]:
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "metadata": {"name": plan.spec.name},
        "options": {
            "manageAllNodes": False,
            "manageNodesWithAnnotationSelector": f"{NODE_ANNOTATION}=fake",
            "cidr": "10.128.0.0/9",
            "nodeLeaseDurationSeconds": 40 if plan.spec.real_nodes else 200,
            "nodeLeaseParallelism": 4,
            "podsOnNodeSyncParallelism": 4,
            "podPlayStageParallelism": 8,
            "nodePlayStageParallelism": 8,
        },
    }
