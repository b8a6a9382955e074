"""The options of a manager, and the objects that the stages of its start get as arguments."""

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
    """The manager cannot start or continue. The text is one line for the person who started it."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings, in which flags are applied, and whether this process runs the controllers, the webhooks or both."""

    settings: Settings
    gates: FeatureGates
    kubeconfig: str = ""
    controllers: bool = True
    webhooks: bool = True


@dataclass(frozen=True, slots=True)
class Shared:
    """Resources that the processes of a manager share. The workers serve admission on the port of `listener`."""

    listener: socket.socket
    workers: Sequence[Worker] = ()
    records: Records | None = None
    """In a worker, the counts of its answers, which it reports to the manager; None in the manager itself."""
    credentials: Credentials | None = None
    """Credentials that the manager has read before it forked, so that processes share their memory; None: not read.

    Each process renews its own credentials.
    """


@dataclass(frozen=True, slots=True)
class Deps:
    """The objects that every stage gets."""

    options: Options
    client: Client
    metrics: Metrics
    supervisor: Supervisor


def own_namespace() -> str:
    """The pod's namespace, or outside a cluster the namespace that the manifests install into."""
    return pod_namespace() or MANAGER_NAMESPACE
