"""`make demo`: a JobSet on a real control plane, from creation through a failure and a restart to the end.

Everything is real but the nodes: etcd, API server, controller manager and scheduler run here, and the manager runs as
its own process with the rights it has in a cluster. Nothing is left behind unless it is asked for.
"""

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from app import local
from app.local import LocalError, kubectl
from devcluster.assets import Sources, locate
from devcluster.cluster import Cluster, down, up
from devcluster.cluster import running as cluster_running
from devcluster.errors import DevclusterError
from devcluster.spec import ClusterSpec, FakeNodes

EXAMPLES = Path(__file__).parent.parent / "examples"
NAME = "training"
STEP_SECONDS = 60
EXIT_CODE = "kwok.jobset.dev/exit-code"
SPEC = ClusterSpec(name="demo", nodes=FakeNodes(count=20, label_every={"rack": 10}))

Status = dict[str, Any]


@dataclass
class Demo:
    """One run. Times are seconds since the start."""

    console: Console
    cluster: Cluster
    started: float
    _rows: str = ""

    def say(self, text: str) -> None:
        """A line of the story, with the time."""
        self.console.print(f"[bold cyan]{time.monotonic() - self.started:5.1f} s[/]  {text}", highlight=False)

    def jobset(self) -> Status:
        """The JobSet as it is now."""
        found: Status = json.loads(kubectl(self.cluster, "get", "jobset", NAME, "-o", "json").stdout)
        return found

    def pods(self, **labels: str) -> list[str]:
        """Names of the set's running pods."""
        chosen = {"jobset.sigs.k8s.io/jobset-name": NAME, **labels}
        selector = ",".join(f"{key}={value}" for key, value in chosen.items())
        fields = "--field-selector=status.phase=Running"
        return kubectl(self.cluster, "get", "pods", "-l", selector, fields, "-o", "name").stdout.split()

    def end(self, pods: list[str], code: int) -> None:
        """Make fake pods end with an exit code."""
        kubectl(self.cluster, "annotate", "--overwrite", *pods, f"{EXIT_CODE}={code}")

    def watch_until(self, reached: Callable[[Status], bool], what: str) -> None:
        """Show the table until a state is reached."""
        deadline = time.monotonic() + STEP_SECONDS
        with self._live() as show:
            while time.monotonic() < deadline:
                js = self.jobset()
                show(js)
                if reached(js.get("status", {})):
                    return
                time.sleep(0.2)
        raise LocalError(f"waited {STEP_SECONDS} s in vain for: {what}")

    @contextlib.contextmanager
    def _live(self) -> Iterator[Callable[[Status], None]]:
        """A table that is redrawn in place on a terminal, else printed whenever it changes."""
        if self.console.is_terminal:
            with Live(console=self.console, auto_refresh=False) as live:
                yield lambda js: live.update(table(js), refresh=True)
        else:
            yield self._print_if_changed

    def _print_if_changed(self, js: Status) -> None:
        rows = plain(js)
        if rows != self._rows:
            self._rows = rows
            self.console.print(rows, highlight=False)


def plain(js: Status) -> str:
    """One line: counts of each ReplicatedJob."""
    status = js.get("status", {})
    counts = "   ".join(
        f"{of['name']}: ready {of['ready']} active {of['active']} succeeded {of['succeeded']} failed {of['failed']}"
        for of in reversed(status.get("replicatedJobsStatus", []))
    )
    return f"         {counts or 'no status yet'}   restarts {status.get('restarts', 0)}"


def table(js: Status) -> Table:
    """Counts of each ReplicatedJob beside what is wanted; restarts are those of the set and of single Jobs."""
    status = js.get("status", {})
    state = status.get("terminalState") or "Running"
    out = Table(title=f"JobSet {NAME}: {state}", title_justify="left")
    out.add_column("ReplicatedJob")
    for column in ("Jobs", "Ready", "Active", "Succeeded", "Failed", "Restarts"):
        out.add_column(column, justify="right")
    counts = {of["name"]: of for of in status.get("replicatedJobsStatus", [])}
    for rjob in js["spec"]["replicatedJobs"]:
        of = counts.get(rjob["name"], {})
        numbers = (str(of.get(key, 0)) for key in ("ready", "active", "succeeded", "failed"))
        restarts = status.get("restarts", 0) + sum(of.get("jobRestarts", ()))
        out.add_row(rjob["name"], str(rjob.get("replicas", 1)), *numbers, str(restarts))
    return out


def run(*, keep: bool) -> int:
    """The whole demo. `keep` leaves cluster and manager running."""
    console = Console(soft_wrap=True)
    try:
        locate(Sources())
        started = time.monotonic()
        if keep:
            _play_and_keep(console, started)
        else:
            _play_and_clear(console, started)
    except (LocalError, DevclusterError) as error:
        console.print(f"[red]the demo failed:[/] {error}", highlight=False)
        return 1
    return 0


def _play_and_clear(console: Console, started: float) -> None:
    with tempfile.TemporaryDirectory(prefix="jobset-demo-") as scratch:
        with cluster_running(SPEC, state_root=Path(scratch)) as cluster:
            demo = Demo(console, cluster, started)
            demo.say(f"control plane up: {version(cluster)}, 20 fake nodes")
            with local.running(cluster, Path(scratch) / "manager"):
                play(demo)
        demo.say("everything is torn down")


def _play_and_keep(console: Console, started: float) -> None:
    cluster = up(SPEC)
    if cluster.existed:
        raise LocalError(
            f"the cluster of an earlier demo is still up: go on with KUBECONFIG={cluster.kubeconfig}, or take it"
            f" down with `.venv/bin/jobset cluster down --name {SPEC.name}`"
        )
    try:
        demo = Demo(console, cluster, started)
        demo.say(f"control plane up: {version(cluster)}, 20 fake nodes")
        port = local.free_port()
        local.install(cluster, webhook_port=port)
        manager = local.start(cluster, cluster.kubeconfig.parent / "manager", webhook_port=port)
        play(demo)
    except BaseException:
        down(SPEC.name)  # a manager that has started ends by itself: it cannot renew its lease
        raise
    explain_how_to_go_on(console, cluster, manager)


def play(demo: Demo) -> None:
    """The story."""
    demo.say("manager ready: webhooks serve, caches are synced, the lease is held")
    kubectl(demo.cluster, "apply", "-f", str(EXAMPLES / "training.yaml"))
    demo.say("applied examples/training.yaml: 1 coordinator, 2 x 4 workers, maxRestarts 3")
    demo.watch_until(lambda status: jobs(status, "ready") == 3, "all Jobs ready")
    demo.say("all pods run; now one worker of workers-1 fails with exit code 1")
    demo.end(demo.pods(**{"jobset.sigs.k8s.io/replicatedjob-name": "workers"})[-1:], 1)
    demo.watch_until(lambda status: status.get("restarts") == 1 and jobs(status, "ready") == 3, "the restarted set")
    demo.say("the set has been restarted and runs again; now every pod succeeds")
    demo.end(demo.pods(), 0)
    demo.watch_until(lambda status: status.get("terminalState") == "Completed", "Completed")
    demo.console.print(kubectl(demo.cluster, "get", "jobset").stdout.rstrip(), highlight=False)
    demo.say("Completed. What happened, as events tell it:")
    for event in events(demo.cluster):
        demo.console.print(f"         {event}", highlight=False)
    demo.say("now kubectl apply -f examples/mistakes.yaml, which has seven mistakes, of every kind:")
    answer = kubectl(demo.cluster, "apply", "-f", str(EXAMPLES / "mistakes.yaml"), check=False)
    if answer.returncode == 0:
        raise LocalError("examples/mistakes.yaml was accepted")
    demo.console.print(answer.stderr.rstrip(), style="yellow", highlight=False)


def jobs(status: Status, count: str) -> int:
    """Jobs of the whole set in that state."""
    return sum(of[count] for of in status.get("replicatedJobsStatus", []))


def events(cluster: Cluster) -> list[str]:
    """Events about the JobSet, oldest first."""
    found = kubectl(cluster, "get", "events.events.k8s.io", "-o", "json", "--field-selector", "regarding.kind=JobSet")
    items = sorted(json.loads(found.stdout)["items"], key=lambda event: str(event["eventTime"]))
    return [f"{event['type']:8}{event['reason']}: {event['note']}" for event in items]


def version(cluster: Cluster) -> str:
    """Version of the API server."""
    return "Kubernetes " + str(
        json.loads(kubectl(cluster, "version", "-o", "json").stdout)["serverVersion"]["gitVersion"]
    )


def explain_how_to_go_on(console: Console, cluster: Cluster, manager: local.Manager) -> None:
    """What a person needs to go on with the cluster that was kept."""
    console.print(
        f"\nThe cluster is up. Use it:\n"
        f"  export KUBECONFIG={cluster.kubeconfig}\n"
        f"  export PATH={cluster.kubectl.parent}{os.pathsep}$PATH\n"
        f"  kubectl get jobsets\n"
        f"  kubectl annotate pod NAME {EXIT_CODE}=1     # make a fake pod fail\n"
        f"The manager is process {manager.process.pid}, its log is {manager.log}\n"
        f"Tear it all down:\n"
        f"  kill {manager.process.pid}; .venv/bin/jobset cluster down --name demo",
        highlight=False,
    )
