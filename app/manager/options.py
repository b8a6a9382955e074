"""The options of a manager, and what each of its stages gets."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from api.features import FeatureGates
from api.keys import MANAGER_NAMESPACE
from app.manager.supervisor import Supervisor
from app.metrics import Metrics
from app.settings import Settings
from app.workers import Records, Worker
from kube.client import Client
from kube.config import Credentials, pod_namespace


class StartError(Exception):
    """The manager cannot start or continue; the text is one line for the person who started it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run: settings after flags were applied, and which half of the program."""

    settings: Settings
    gates: FeatureGates
    kubeconfig: str = ""
    controllers: bool = True
    webhooks: bool = True


@dataclass(frozen=True, slots=True)
class Shared:
    """Resources that the processes of a manager share if they serve admission on one port."""

    listener: socket.socket
    workers: Sequence[Worker] = ()
    records: Records | None = None
    """Where a worker counts what it answers."""
    credentials: Credentials | None = None
    """Read before the fork, so that the processes share their memory. Each process renews its own. None: not read yet.
    """


@dataclass(frozen=True, slots=True)
class Deps:
    """What every stage is given."""

    options: Options
    client: Client
    metrics: Metrics
    supervisor: Supervisor


def own_namespace() -> str:
    """The pod's namespace; outside a cluster the one that manifests install into."""
    return pod_namespace() or MANAGER_NAMESPACE
