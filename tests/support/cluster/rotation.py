"""A CA that is replaced while the API server calls the webhooks: the load, and what it must never see."""

import base64
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dev.cluster.cluster import Cluster
from manifests.naming import MUTATING_CONFIGURATION, NAMESPACE, VALIDATING_CONFIGURATION, WEBHOOK_SECRET
from tests.support.cluster.admission_calls import manifest, path
from tests.support.cluster.requests import MERGE, replace_object, request
from tests.support.objects.jobsets import rjob
from tests.support.tls import trusting

SECRET_PATH = f"/api/v1/namespaces/{NAMESPACE}/secrets/{WEBHOOK_SECRET}"
CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
    for kind, name in (("mutating", MUTATING_CONFIGURATION), ("validating", VALIDATING_CONFIGURATION))
]
BEHIND = 0.3
"""Seconds by which an API server may be behind when it takes over a CA bundle."""
TOO_LATE = 0.8
"""Seconds after which a bundle says nothing any more: a manager serves a new CA one second after it is known, or later."""


def authorities(cluster: Cluster) -> str:
    """`ca.crt` of the Secret, base64."""
    found: str = request(cluster, "GET", SECRET_PATH)[1]["data"]["ca.crt"]
    return found


def drop_authority_key(cluster: Cluster) -> None:
    """Make the manager replace its CA, as docs/certificates.md says."""
    status, answer = request(cluster, "PATCH", SECRET_PATH, {"data": {"ca.key": None}}, MERGE)
    assert status == 200, answer


def change_webhooks(cluster: Cluster, path: str, client_config: Callable[[dict[str, Any]], dict[str, str]]) -> None:
    """Change how the API server calls each webhook of a configuration; `client_config` gives what changes of one."""

    def change(found: dict[str, Any]) -> None:
        for hook in found["webhooks"]:
            hook["clientConfig"] |= client_config(hook)

    status, answer = replace_object(partial(request, cluster), path, change)
    assert status == 200, answer


def bundles(cluster: Cluster) -> set[str]:
    """The CA bundles by which the API server judges the webhooks, base64."""
    found = [request(cluster, "GET", configuration)[1]["webhooks"] for configuration in CONFIGURATIONS]
    return {webhook["clientConfig"]["caBundle"] for webhooks in found for webhook in webhooks}


@dataclass
class Load:
    """What the callers of the webhooks have seen. `served`: DER of the certificates that were shown to them.

    Without `judge` only the API server judges these: it tries all CAs of a bundle that have the same name, OpenSSL one.
    """

    judge: bool = True
    admitted: int = 0
    shaken: int = 0
    failures: list[str] = field(default_factory=list)
    served: set[bytes] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def each(self, pause: float, step: Callable[[], None]) -> None:
        """Do it again and again until it is over, `pause` seconds from one begin to the next."""
        while not self.over.is_set():
            began = time.monotonic()
            step()
            self.over.wait(began + pause - time.monotonic())

    def admit(self, cluster: Cluster, namespace: str) -> None:
        status, answer = request(cluster, "POST", path(namespace) + "?dryRun=All", manifest(namespace, rjob("a")))
        with self.lock:
            self.admitted += 1
            if status != 201:
                self.failures.append(f"{status}: {answer}")

    def shake_hands(self, cluster: Cluster, port: int) -> None:
        """As an API server does that knows the CA bundle of a moment ago."""
        known = time.monotonic()
        for bundle in bundles(cluster):
            self.over.wait(BEHIND)
            trust = trusting(base64.b64decode(bundle))
            if not self.judge:
                trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
            try:
                with (
                    socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
                    trust.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
                ):
                    shown = tls.getpeercert(binary_form=True)
            except ssl.SSLError as error:
                if time.monotonic() - known > TOO_LATE:
                    return  # this machine is so busy that the bundle is older than any API server's
                with self.lock:
                    self.failures.append(f"handshake with port {port}: {error}")
                continue
            with self.lock:
                self.shaken += 1
                self.served.add(shown or b"")


@contextlib.contextmanager
def under_load(
    cluster: Cluster, namespace: str, ports: list[int], *, rate: float, threads: int = 4, judge: bool = True
) -> Iterator[Load]:
    """Reviews through the API server, `rate` a second at most, and a handshake after the other with each port."""
    load = Load(judge)
    with ThreadPoolExecutor(threads + len(ports)) as pool:
        work = [pool.submit(load.each, threads / rate, lambda: load.admit(cluster, namespace)) for _ in range(threads)]
        work += [pool.submit(load.each, 0, lambda port=port: load.shake_hands(cluster, port)) for port in ports]  # type: ignore[misc]
        try:
            yield load
        finally:
            load.over.set()
    for done in work:
        done.result()
