"""A manager process that a test session shares, and that a test may kill and start again."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from app.settings import LeaderElectionSettings
from dev import local
from dev.cluster import audit
from dev.cluster.cluster import Cluster
from manifests import NAMESPACE, SERVICE_ACCOUNT
from tests.support.cluster.requests import request

LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LeaderElectionSettings().resource_name}"
USER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"

# Shorter than by default, so that a manager that replaces a killed one need not wait for long; long enough not to be
# lost when the machine is busy.
LEASE = {"leaseDuration": "10s", "renewDeadline": "7s", "retryPeriod": "1s"}


class ManagerProcess:
    """Runs with exactly the rights of its ServiceAccount."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.port = local.free_port()
        self._folder = folder
        self._running: local.Manager | None = None
        self._sections: dict[str, Any] = {}

    def start(self, **more: dict[str, Any]) -> None:
        """Have it run with these sections in its configuration file, and wait until it is ready.

        One that runs with others is stopped first, so that a test need not tidy up after itself.
        """
        if self._running is not None and self._running.process.poll() is None and self._sections != more:
            self.stop()
        if self._running is None or self._running.process.poll() is not None:
            self._sections = more
            sections = {"leaderElection": LEASE, **more}
            self._running = local.start(self.cluster, self._folder, webhook_port=self.port, sections=sections)

    def kill(self, *, keep_lease: bool = False) -> None:
        """End it as a crash would, without clean-up.

        A crash leaves the lease, for which the next manager waits until it has run out: with `keep_lease` here too.
        """
        assert self._running is not None
        self._running.kill()
        if not keep_lease:
            status, answer = request(self.cluster, "DELETE", LEASE_PATH)
            assert status == 200, answer

    def stop(self) -> tuple[int, float]:
        """Ask it to end; gives exit code and seconds."""
        assert self._running is not None
        started = time.monotonic()
        return local.stop(self._running), time.monotonic() - started

    def log(self) -> str:
        assert self._running is not None
        return self._running.log.read_text()

    def calls(self, start: int, *, namespace: str, dry_run: bool = False) -> Counter[tuple[str, str, int]]:
        """The manager's finished API calls since byte `start` of the audit log, by verb, resource and code.

        Those that store something and those that only ask (dry runs) are counted apart.
        """
        return Counter(
            (call.verb, call.resource, call.code)
            for call in audit.calls(self.cluster.audit_log, start, namespace)
            if call.user == USER and call.dry_run == dry_run and call.namespace == namespace
        )
