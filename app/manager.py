"""Starts the parts of the manager in order, keeps them running, and stops them in order.

Start: probes -> certificates -> webhooks -> caches synced -> lease -> controllers. Stop: readiness goes red, running
reconciles and admission requests end, events are written, the lease is given back. Whatever task dies takes the process
with it: a manager that runs by halves is worse than one that is started again.
"""

import asyncio
import contextlib
import logging
import os
import platform
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import app
from api import keys
from api.features import FeatureGates
from app.health import Health, parse_bind_address
from app.metrics import Metrics
from app.settings import Settings
from controllers.jobset.controller import NAME, JobSetReconciler, Watches
from kube.client import Client
from kube.config import load
from kube.controller import Controller, Request
from kube.errors import KubeError, NotFound
from kube.events import EventRecorder
from kube.leader import LeaderElector, LeaseConfig, identity
from kube.transport import HttpTransport
from kube.workqueue import WorkQueue

log = logging.getLogger(__name__)

WORKERS = 8
"""JobSets reconciled side by side. A reconcile mostly waits for the API server."""

SYNC_TIMEOUT = 120.0
"""Seconds until caches have to be filled."""

STOP_TIMEOUT = 8.0
"""Seconds for a clean stop; the pod is killed 10 s after SIGTERM."""

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE = "jobset-system"


class StartError(Exception):
    """The manager cannot start; the text is one line for the person who started it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run: settings after flags were applied, and which half of the program."""

    settings: Settings
    gates: FeatureGates
    kubeconfig: str = ""
    controllers: bool = True
    webhooks: bool = True


def own_namespace() -> str:
    """The pod's namespace; outside a cluster the one that manifests install into."""
    try:
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def user_agent() -> str:
    """`jobset/<version> (<os>/<arch>)`: the part before the slash becomes the field manager's name."""
    return f"jobset/v{app.version()} ({platform.system().lower()}/{platform.machine()})"
