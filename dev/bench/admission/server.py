"""`python -m dev.bench.admission.server CORE CA_FILE POLICIES`: a manager's admission server without a cluster.

It has the same app, server, TLS options, loop and metrics as `app.manager`, which it also imports so that memory is
comparable. Only the certificate is created here. It prints its port on one line, serves until standard input ends, and
then prints the number of answers by code as JSON.
"""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from api.features import FeatureGates
from app import heap
from app.engine import engine
from app.manager.process import loop_factory
from app.metrics import Metrics
from certs.material import Material, Renewal
from certs.pki import ImpureInputs, renew
from certs.tls import install, server_context
from dev.bench.admission.policies import Policies
from httpserver.address import bind
from httpserver.server import Server
from webhooks.jobset.handlers import jobset_handlers
from webhooks.jobset.policies import PolicyChecks
from webhooks.router import create_app


class Counts:
    """The manager's own counters, and the codes of the answers."""

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self._metrics = Metrics().webhooks

    def on_start(self, path: str) -> None:
        self._metrics.on_start(path)

    def on_refusal(self, path: str, rule: str) -> None:
        self._metrics.on_refusal(path, rule)

    def on_finish(self, path: str, code: int, seconds: float) -> None:
        self._metrics.on_finish(path, code, seconds)
        self.codes[code] = self.codes.get(code, 0) + 1


def certificate() -> Material:
    """A CA and a serving certificate for this machine, as the manager makes them."""
    now = datetime.now(UTC).replace(microsecond=0)
    inputs = ImpureInputs(now, lambda: ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number)
    return renew(Material(), Renewal.ALL, ("127.0.0.1",), inputs)


async def serve(material: Material, policies: int) -> None:
    context = server_context()
    install(context, material.certificate, material.key)
    counts = Counts()
    gates, source = FeatureGates(), Policies(policies)
    checks = PolicyChecks(source, source, gates) if policies else None
    app = create_app(jobset_handlers(engine(gates), None, checks), metrics=counts)
    server = Server(app, bind(("127.0.0.1", 0), "the benchmark"), context)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        await server.started.wait()
        heap.freeze()
        print(server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.stop()
    print(json.dumps(counts.codes), flush=True)


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    certificates = certificate()
    Path(sys.argv[2]).write_bytes(certificates.authorities)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(certificates, int(sys.argv[3])))
