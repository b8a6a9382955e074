"""`python -m dev.bench.admission.server CORE CA_FILE POLICIES`: a manager's admission server without a cluster.

The server has the same app, server, TLS options, loop and metrics as `app.manager`. The process also imports
`app.manager`, so that its memory is comparable. Only the certificate is created here. The process prints its port on
one line, serves until standard input ends, and then prints the number of answers by code as JSON.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry

from api.features import FeatureGates
from app import heap
from app.engine import engine
from app.manager.process import loop_factory
from app.metrics import WebhookHooks
from certs.material import Material, Renewal
from certs.pki import ImpureInputs, renew
from certs.tls import install, server_context
from dev.bench.admission.policies import Policies
from httpserver.address import bind
from httpserver.server import Server
from webhooks.jobset.handlers import jobset_handlers
from webhooks.jobset.policies import PolicyChecks
from webhooks.router import create_app


class CountingHooks(WebhookHooks):
    """The manager's own metrics, with the number of answers by code (`codes`)."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.codes: Counter[int] = Counter()

    def on_finish(self, path: str, code: int, seconds: float) -> None:
        super().on_finish(path, code, seconds)
        self.codes[code] += 1


def new_certificates() -> Material:
    """A CA and a serving certificate for this machine, as the manager makes them."""
    now = datetime.now(UTC).replace(microsecond=0)
    inputs = ImpureInputs(now, lambda: ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number)
    return renew(Material(), Renewal.ALL, ("127.0.0.1",), inputs)


async def serve(material: Material, policy_count: int) -> None:
    context = server_context()
    install(context, material.certificate, material.key)
    hooks = CountingHooks()
    gates, policies = FeatureGates(), Policies(policy_count)
    checks = PolicyChecks(policies, policies, gates) if policy_count else None
    app = create_app(jobset_handlers(engine(gates), None, checks), metrics=hooks)
    server = Server(app, bind(("127.0.0.1", 0), "the benchmark"), context)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        await server.started.wait()
        heap.freeze()
        print(server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.stop()
    print(json.dumps(hooks.codes), flush=True)


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    certificates = new_certificates()
    Path(sys.argv[2]).write_bytes(certificates.authorities)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(certificates, int(sys.argv[3])))
