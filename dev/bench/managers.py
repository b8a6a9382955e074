"""Parses, installs and starts the managers under measurement.

Every manager gets only what a Go manager takes, too: certificates in a folder, webhook configurations that trust them,
all rights, no leader election.
"""

import argparse
import contextlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev import local
from dev.cluster import pki
from dev.cluster.cluster import Cluster
from manifests import NAMESPACE, SERVICE_ACCOUNT


@dataclass(frozen=True, slots=True)
class Entry:
    """A manager under measurement. A floor does no admission, and managers are compared with it."""

    name: str
    command: tuple[str, ...]
    is_floor: bool = False


DEFAULT_MANAGERS = (
    Entry("jobset", local.MANAGER_COMMAND),
    Entry("floor-background", (sys.executable, "-m", "dev.bench.floor"), is_floor=True),
)
MANAGERS_BY_NAME = {entry.name: entry for entry in DEFAULT_MANAGERS}
WITHOUT_ELECTION = {"leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False}}
"""Sections of the configuration of a single manager whose certificate is in a folder."""

ALL_RIGHTS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "bench-all-rights"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}],
}
"""A binding to all rights, since managers need different rights, which are not compared."""


def parse_entry(text: str) -> Entry:
    """The manager for a value of `--manager`: a name in `MANAGERS_BY_NAME`, `NAME=COMMAND`, or a command.

    A command without a name has the name of its program.
    """
    if text in MANAGERS_BY_NAME:
        return MANAGERS_BY_NAME[text]
    name, equals, command = text.partition("=")
    if not equals or not name.replace("-", "").replace(".", "").replace("_", "").isalnum():
        name, command = "", text
    words = shlex.split(command)
    if not words:
        raise argparse.ArgumentTypeError(f"{text!r} names no command; known by name are {', '.join(MANAGERS_BY_NAME)}")
    return Entry(name or Path(words[0]).name, tuple(words))


@contextlib.contextmanager
def running_manager(
    cluster: Cluster,
    folder: Path,
    entry: Entry,
    sections: Mapping[str, Any],
) -> Iterator[local.Manager]:
    """Install the objects of the manager, and run it during the block. `sections` go into its configuration.

    The CA of its certificate is in `certs/ca.crt` of the folder.
    """
    port = local.free_port()
    authority = pki.new_authority("jobset-ca")
    certificates = folder / "certs"
    certificates.mkdir(parents=True)
    authority.write(certificates, "ca")
    pki.issue_serving(authority, "localhost").write(certificates, "tls")
    webhook_port = None if entry.is_floor else port
    local.install(cluster, webhook_port=webhook_port, ca_bundle=authority.certificate)
    local.kubectl(cluster, "apply", "-f", "-", stdin=json.dumps(ALL_RIGHTS))
    with further_manager(cluster, folder, entry, sections, port) as manager:
        yield manager


@contextlib.contextmanager
def further_manager(
    cluster: Cluster, folder: Path, entry: Entry, sections: Mapping[str, Any], port: int = 0
) -> Iterator[local.Manager]:
    """Run another manager during the block, after `running_manager`. Its certificate is in the folder."""
    manager = local.start(
        cluster,
        folder,
        webhook_port=port or local.free_port(),
        command=entry.command,
        sections={**WITHOUT_ELECTION, **sections},
    )
    try:
        yield manager
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            local.stop(manager)
