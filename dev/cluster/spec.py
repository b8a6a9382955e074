"""The specification of a local cluster and its files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from dev.cluster.errors import UsageError

Profile = Literal["api", "full"]
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")

# The feature gates of Workload, PodGroup and CompositePodGroup. API server, controller manager and scheduler need all.
GANG_GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
GANG_RUNTIME_CONFIG = ("scheduling.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha3=true")
MAX_REAL_NODES = 20
DEFAULT_CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110"}


@dataclass(frozen=True, kw_only=True)
class FakeNodes:
    """Fake nodes, whose kubelets kwok plays.

    `label_every` maps a label key to a group size: node i has the label `key=<last path segment of key>-<i // size>`.
    `labels` are labels of all nodes. `capacity` maps a resource name to a quantity, and is merged over
    `DEFAULT_CAPACITY`. `features` are the features that the kubelets declare (`status.declaredFeatures`).
    """

    count: int = 0
    label_every: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()

    def labels_at(self, index: int) -> dict[str, str]:
        """The labels of node number `index` (from 0)."""
        groups = {key: f"{key.rsplit('/', 1)[-1]}-{index // size}" for key, size in self.label_every.items()}
        return {**self.labels, **groups}


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """One local cluster.

    - `profile`: "api" is etcd and kube-apiserver. "full" adds the controller manager, the scheduler and kwok.
    - `real_nodes`: number of nodes that run containers (`dev.cluster.real`), beside the fake nodes.
    - `volumes`: number of fake volumes of the default StorageClass. A claim is bound at once, and its volume is
      available again after the claim is deleted.
    - `port`: port of the API server; 0 picks a free port.
    - `gang`: whether `GANG_GATES` and `GANG_RUNTIME_CONFIG` are turned on, as far as the binaries have them.
    - `qps`: requests per second of each client of the controller manager and the scheduler. The burst is twice as
      large.
    - `audit`: whether every request is logged at Metadata level in `audit.log`. Writes of the resources `audit_bodies`
      ("jobs.batch", "leases.coordination.k8s.io", "pods.") are logged with request and response. The file is rotated
      at `audit_mib`, and one old file is kept.
    - `admission_config`: a file for kube-apiserver's flag `--admission-control-config-file`.
    - `keep`: whether a component that ends is started again, as by the kubelet of a control plane's node.
    """

    name: str = "default"
    profile: Profile = "full"
    nodes: FakeNodes = field(default_factory=FakeNodes)
    real_nodes: int = 0
    volumes: int = 0
    port: int = 0
    gang: bool = True
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    qps: int = 1000
    audit: bool = True
    audit_bodies: tuple[str, ...] = ()
    audit_mib: int = 1024
    admission_config: str = ""
    keep: bool = False

    def __post_init__(self) -> None:
        if self.profile == "api" and self.nodes.count:
            raise UsageError("fake nodes need the full profile: kwok does not run in the api profile.")
        if self.profile == "api" and self.real_nodes:
            raise UsageError("real nodes need the full profile: nothing schedules pods in the api profile.")
        if not 0 <= self.real_nodes <= MAX_REAL_NODES:
            raise UsageError(f"{self.real_nodes} real nodes: a cluster can have 0 to {MAX_REAL_NODES}.")
        if self.profile == "api" and self.volumes:
            raise UsageError("fake volumes need the full profile: nothing binds them in the api profile.")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClusterSpec:
        return cls(**{**data, "nodes": FakeNodes(**data["nodes"])})


@dataclass(frozen=True)
class Layout:
    """The files of one cluster, which are all in its state folder `root`."""

    root: Path

    @classmethod
    def for_name(cls, name: str, state_root: Path | None) -> Layout:
        """The layout of the cluster `name` below `state_root`, or below the user's state directory."""
        if not NAME.fullmatch(name):
            raise UsageError(
                f"cluster name {name!r} is not usable: use 1 to 40 lower-case letters, digits and dashes, "
                f"with a letter or digit at both ends."
            )
        return cls((state_root or default_state_root()).absolute() / name)

    @property
    def record(self) -> Path:
        """The file with specification, ports and binaries, which is written once, before any process starts."""
        return self.root / "cluster.json"

    @property
    def status(self) -> Path:
        """The file in which the supervisor reports its progress."""
        return self.root / "status.json"

    @property
    def lock(self) -> Path:
        """The lock file that the supervisor holds while it runs. The kernel releases the lock."""
        return self.root / "supervisor.lock"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def etcd(self) -> Path:
        return self.root / "etcd"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.root / "audit.log"

    @property
    def kept_folder(self) -> Path:
        """The folder with the command lines of the processes that `Cluster.keep` runs, one file for each process."""
        return self.root / "kept"

    def probe(self, name: str) -> Path:
        """The file with the URL of the readiness probe of a kept process. It is absent if the process has no probe."""
        return self.kept_folder / f"{name}.url"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"


def replace_text(file: Path, text: str) -> None:
    """Write the file in one step, so that no reader sees a part of it."""
    temporary_file = file.with_suffix(".tmp")
    temporary_file.write_text(text)
    temporary_file.replace(file)


def default_state_root() -> Path:
    """The folder that holds one state folder per cluster."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "jobset-devcluster"
