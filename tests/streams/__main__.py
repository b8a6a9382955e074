"""Record the requests of Kueue and Kubeflow Trainer about JobSets: `python -m tests.streams --help`."""

# ruff: noqa: T201 - says what it does

import argparse
import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dev import local
from dev.cluster import audit
from dev.cluster.cluster import Cluster, running
from dev.cluster.components import ADMIN, CLIENTS
from dev.cluster.spec import ClusterSpec, FakeNodes
from tests.streams import clients, normalise
from tests.streams.lives import NAMESPACE, lives
from tests.support.cluster.manager import USER

JSON = dict[str, Any]

HERE = Path(__file__).parent
COMMAND = "python -m tests.streams"
ABOUT = """Build Kueue and Kubeflow Trainer from their Go modules, run them beside this manager on a local control plane,
lead two JobSets and a TrainJob through admission, eviction and a second admission, and write what both clients sent
about JobSets to tests/streams/*.json."""
NEEDS = f"""Needs Go (or the one that `jobset cluster fetch` fetches), a Go module proxy (GOPROXY), and the right to write to
{clients.KUEUE_METRICS_CERTIFICATES}, where Kueue looks for a certificate; what is written there is removed again.
The first build takes about ten minutes on two processors, a recording one. GOFLAGS=-p=1 builds with one.
Versions are in tests/streams/clients.py. See the difference with `git diff tests/streams` afterwards: an unchanged
client gives an unchanged file."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=ABOUT, epilog=NEEDS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, default=HERE, metavar="DIR", help="for the streams (default: %(default)s)"
    )
    parser.add_argument(
        "--binaries", type=Path, metavar="DIR", help="keep the clients' binaries there, and use those that are there"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep logs and configurations there")
    parser.add_argument("--build-only", action="store_true", help="build the clients into --binaries, and stop")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jobset-streams-") as scratch:
        folder = (arguments.binaries or Path(scratch) / "bin").absolute()
        binaries = {module: build_client(module, folder) for module in (clients.KUEUE, clients.TRAINER)}
        if not arguments.build_only:
            work = arguments.work or Path(scratch) / "work"
            record(binaries, work.absolute(), arguments.output)


def build_client(module: clients.Module, folder: Path) -> Path:
    binary = folder / Path(module.package).name
    if not binary.exists():
        print(f"building {module.path} {module.version}", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        return clients.compile_command(module, folder)
    return binary


def record(binaries: dict[clients.Module, Path], work: Path, output: Path) -> None:
    recorded = ("jobsets.jobset.x-k8s.io", "jobsets/status.jobset.x-k8s.io", "jobs.batch")
    spec = ClusterSpec(name="streams", nodes=FakeNodes(count=20, label_every={"rack": 10}), audit_bodies=recorded)
    work.mkdir(parents=True, exist_ok=True)
    with running(spec, state_root=work / "state") as cluster, running_clients(cluster, binaries, work):
        about = {
            "madeBy": {module.path: module.version for module in binaries},
            "kubernetes": kubernetes(cluster),
            "recordAgain": COMMAND,
        }
        for name, phases in lives(cluster):
            stream = {"about": about, "phases": record_streams(cluster, phases)}
            path = output / f"{name}.json"
            path.write_text(json.dumps(stream, indent=1) + "\n", encoding="utf-8")
            print(f"{path}: {sum(len(phase['requests']) for phase in stream['phases'].values())} requests", flush=True)


def record_streams(cluster: Cluster, phases: Iterator[str]) -> JSON:
    """What was sent in each phase, and which dry runs of ours were refused."""
    found: JSON = {}
    start = audit.log_size(cluster.audit_log)
    for phase in phases:
        with cluster.audit_log.open("rb") as log:
            log.seek(start)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        start += len(whole)
        events = list(normalise.events(whole.splitlines()))
        sent = normalise.writes(events, [clients.KUEUE.user, clients.TRAINER.user, CLIENTS[ADMIN][0]], NAMESPACE)
        found[phase] = {"requests": sent, "refusals": normalise.refusals(events, USER, NAMESPACE)}
        print(f"  {phase}: {len(events)} requests in the log", flush=True)
    return found


def kubernetes(cluster: Cluster) -> str:
    with cluster.connect() as connection:
        version: str = connection.request("GET", "/version")[1]["gitVersion"]
    return version


@contextlib.contextmanager
def running_clients(cluster: Cluster, binaries: dict[clients.Module, Path], work: Path) -> Iterator[None]:
    """This manager and both clients run through the length of the block."""
    port = local.free_port()
    local.install(cluster, webhook_port=port)
    gates = {"featureGates": {"RestartJob": True}}
    manager = local.start(cluster, work / "manager", webhook_port=port, sections=gates)
    try:
        print("the manager runs", flush=True)
        trainer = clients.install_trainer(cluster, work / "trainer")
        with clients.kueue(cluster, binaries[clients.KUEUE], work / "kueue"):
            print("Kueue runs", flush=True)
            with clients.trainer(trainer, binaries[clients.TRAINER]):
                print("Trainer runs", flush=True)
                yield
    finally:
        local.stop(manager)


if __name__ == "__main__":
    main()
