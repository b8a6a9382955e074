"""`make demo`: plays a story (dev/demo/stories.py) of a JobSet on a real control plane.

Only the nodes are fake. etcd, API server, controller manager and scheduler run here, and the manager runs as its own
process with the rights that it has in a cluster. Everything is removed at the end, unless --keep is given.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from authoring.examples import EXAMPLES
from cli.terminal import raw_stream
from cli.ui.cli import ADDRESS
from dev import local
from dev.cluster.assets import Sources, locate
from dev.cluster.cluster import Cluster, down, up
from dev.cluster.errors import DevclusterError
from dev.cluster.nodes import EXIT_CODE
from dev.cluster.spec import ClusterSpec, FakeNodes
from dev.local import LocalError, kubectl
from policy.kinds import GATE as POLICIES_GATE

METRICS_READERS = "jobset-metrics-reader"
STEP_SECONDS = 60
ACCELERATOR = "nvidia.com/gpu"
NODES = FakeNodes(
    count=20,
    label_every={
        "rack": 10,
        "topology.kubernetes.io/zone": 20,
        "example.com/superslice": 20,
        "example.com/cube": 1,
        "cloud.google.com/gke-nodepool": 4,
    },
    labels={
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "4x4",
    },
    capacity={ACCELERATOR: "8", "google.com/tpu": "4", "example.com/tpu": "64"},
    features=("RestartAllContainersOnContainerExits",),
)
"""Nodes that have the resources and labels of all examples (hosts with GPUs, hosts with TPUs, cubes)."""
SPEC = ClusterSpec(name="demo", nodes=NODES, volumes=16)
GATES = (
    "ElasticJobSet",
    "InPlaceRestart",
    "JobSetActiveDeadlineSeconds",
    "JobSetElasticReplicas",
    "JobSetFailureEscalation",
    "JobSetGangOfGangs",
    "JobSetNodeFailure",
    "JobSetSpares",
    "JobSetStartTimeout",
    "JobSetWorkloadAwareSchedulingAPI",
    "RestartJob",
)
"""Feature gates of the examples, so that they can be tried on the cluster that is kept."""

Status = dict[str, Any]


def keep_manager(cluster: Cluster, story: "Story") -> str:
    """Make the cluster run a manager on this machine, and wait until it is ready.

    Returns the path of its log and how to read its metrics, as text for people.
    """
    metrics = f"127.0.0.1:{local.free_port()}"
    log = local.keep(cluster, flags=story.flags, policies=story.policies, metrics=metrics)
    account = f"--clusterrole={METRICS_READERS} --serviceaccount=default:default"
    return (
        f"{log}\nReading its metrics needs the ClusterRole {METRICS_READERS}:\n"
        f"  kubectl create clusterrolebinding metrics {account}\n"
        f'  curl -k -H "Authorization: Bearer $(kubectl create token default)" https://{metrics}/metrics'
    )


@dataclass(frozen=True, slots=True)
class Story:
    """The story of the JobSet with the name `jobset`. `play` plays it, and raises `LocalError` if it goes differently.

    `policies`: whether the cluster serves JobSetPolicies. `start` starts the manager, and returns the place of its log.
    """

    jobset: str
    play: Callable[["Demo"], None]
    policies: bool = False
    spec: ClusterSpec = SPEC
    start: Callable[[Cluster, "Story"], str] = keep_manager

    @property
    def flags(self) -> tuple[str, ...]:
        gates = (*GATES, POLICIES_GATE) if self.policies else GATES
        return (f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}",)

    @property
    def nodes(self) -> str:
        """The nodes of its cluster, in words."""
        return f"{self.spec.real_nodes} real nodes" if self.spec.real_nodes else f"{self.spec.nodes.count} fake nodes"


@dataclass
class Demo:
    """One run of a story. `name`: of its JobSet. `started`: the time of the start (monotonic seconds)."""

    console: Console
    cluster: Cluster
    started: float
    name: str
    _last_counts: str = ""

    def say(self, text: str) -> None:
        """Print a line of the story, with the seconds since the start."""
        self.console.print(f"[bold cyan]{time.monotonic() - self.started:5.1f} s[/]  {text}", highlight=False)

    def jobset(self) -> Status:
        answer: Status = json.loads(kubectl(self.cluster, "get", "jobset", self.name, "-o", "json").stdout)
        return answer

    def pods(self, **labels: str) -> list[str]:
        """Return the names of the JobSet's running pods that have these labels."""
        all_labels = {"jobset.sigs.k8s.io/jobset-name": self.name, **labels}
        selector = ",".join(f"{key}={value}" for key, value in all_labels.items())
        fields = "--field-selector=status.phase=Running"
        return kubectl(self.cluster, "get", "pods", "-l", selector, fields, "-o", "name").stdout.split()

    def end(self, pods: list[str], code: int) -> None:
        """Make fake pods end with this exit code."""
        kubectl(self.cluster, "annotate", "--overwrite", *pods, f"{EXIT_CODE}={code}")

    def watch_until(self, is_expected: Callable[[Status], bool], expectation: str) -> None:
        """Show the counts until the status of the JobSet is as expected. Raises `LocalError` as `wait_until` does."""
        with self._live() as show:

            def is_reached() -> bool:
                js = self.jobset()
                show(js)
                return is_expected(js.get("status", {}))

            wait_until(is_reached, expectation)

    @contextlib.contextmanager
    def _live(self) -> Iterator[Callable[[Status], None]]:
        """Yield a function that shows a JobSet, on a terminal as a live table, else as a line whenever it changes."""
        if self.console.is_terminal:
            with Live(console=self.console, auto_refresh=False) as live:
                yield lambda js: live.update(counts_table(js), refresh=True)
        else:
            yield self._print_if_changed

    def _print_if_changed(self, js: Status) -> None:
        counts = counts_line(js)
        if counts != self._last_counts:
            self._last_counts = counts
            self.console.print(counts, highlight=False)


def counts_line(js: Status) -> str:
    """Return the counts of each ReplicatedJob and the restarts, in one line."""
    status = js.get("status", {})
    entries = {entry["name"]: entry for entry in status.get("replicatedJobsStatus", [])}
    counts = "   ".join(
        f"{entry['name']}: " + " ".join(f"{key} {entry[key]}" for key in ("ready", "active", "succeeded", "failed"))
        for entry in (entries[rjob["name"]] for rjob in js["spec"]["replicatedJobs"] if rjob["name"] in entries)
    )
    stage = f"{status['currentStage']}   " if "currentStage" in status else ""
    in_place = (
        f" and {status['currentInPlaceRestartAttempt']} in place" if "currentInPlaceRestartAttempt" in status else ""
    )
    return f"         {stage}{counts or 'no status yet'}   restarts {status.get('restarts', 0)}{in_place}"


def counts_table(js: Status) -> Table:
    """Return a table with the replicas of each ReplicatedJob, the counts of its Jobs, and its restarts."""
    status = js.get("status", {})
    state = status.get("terminalState") or f"Running {status.get('currentStage', '')}".rstrip()
    table = Table(title=f"JobSet {js['metadata']['name']}: {state}", title_justify="left")
    table.add_column("ReplicatedJob")
    for column in ("Jobs", "Ready", "Active", "Succeeded", "Failed", "Restarts"):
        table.add_column(column, justify="right")
    counts = {entry["name"]: entry for entry in status.get("replicatedJobsStatus", [])}
    for rjob in js["spec"]["replicatedJobs"]:
        entry = counts.get(rjob["name"], {})
        numbers = (str(entry.get(key, 0)) for key in ("ready", "active", "succeeded", "failed"))
        restarts = status.get("restarts", 0) + sum(entry.get("jobRestarts", ()))
        table.add_row(rjob["name"], str(rjob.get("replicas", 1)), *numbers, str(restarts))
    return table


def run(story: Story, *, keep: bool) -> int:
    """Play a story on a new cluster. Returns the exit code. `keep` leaves cluster and manager running."""
    console = Console(file=raw_stream(sys.stdout), soft_wrap=True)
    try:
        locate(Sources())
        started = time.monotonic()
        with _kept_cluster(story.spec) if keep else local.temporary_cluster(story.spec) as cluster:
            demo = Demo(console, cluster, started, story.jobset)
            demo.say(f"control plane up: {server_version(cluster)}, {story.nodes}")
            log = story.start(cluster, story)
            demo.say("manager ready: webhooks serve, caches are synced, the lease is held")
            story.play(demo)
        if keep:
            explain_how_to_go_on(console, cluster, log, has_fake_nodes=story.spec.nodes.count > 0)
        else:
            demo.say("everything is torn down. Next, keep it to run JobSets of your own: jobset demo --keep")
    except DevclusterError as error:
        console.print(f"[red]the demo failed:[/] {error}", highlight=False)
        return 1
    return 0


@contextlib.contextmanager
def _kept_cluster(spec: ClusterSpec) -> Iterator[Cluster]:
    """Start a cluster that stays up unless the block fails. Raises `LocalError` if an earlier demo's is still up."""
    cluster = up(spec)
    if cluster.existed:
        raise LocalError(
            f"the cluster of an earlier demo is still up: go on with KUBECONFIG={cluster.kubeconfig}, or take it"
            f" down with `jobset cluster down --name {spec.name}`. For a second one beside it, use"
            " another folder for its state: `export XDG_STATE_HOME=$HOME/my-demo` in each shell that uses it, then"
            " `jobset demo --keep`"
        )
    try:
        yield cluster
    except BaseException:
        down(spec.name)
        raise


def count_jobs(status: Status, count: str) -> int:
    """Return the sum of a count, such as `ready`, over all ReplicatedJobs."""
    return sum(entry[count] for entry in status.get("replicatedJobsStatus", []))


def event_lines(cluster: Cluster) -> list[str]:
    """Return the events about JobSets as lines, oldest first."""
    answer = kubectl(cluster, "get", "events.events.k8s.io", "-o", "json", "--field-selector", "regarding.kind=JobSet")
    items = sorted(json.loads(answer.stdout)["items"], key=lambda event: str(event["eventTime"]))
    return [f"{event['type']:8}{event['reason']}: {event['note']}" for event in items]


def server_version(cluster: Cluster) -> str:
    """Return the version of the API server, such as `Kubernetes v1.35.0`."""
    return "Kubernetes " + str(
        json.loads(kubectl(cluster, "version", "-o", "json").stdout)["serverVersion"]["gitVersion"]
    )


def explain_how_to_go_on(console: Console, cluster: Cluster, log: str, *, has_fake_nodes: bool) -> None:
    """Print commands to continue with the kept cluster."""
    next_step = (
        "Next, run another JobSet on it:\n"
        f"  kubectl apply -f {EXAMPLES}/worker-0-decides.yaml && jobset explain worker-0-decides"
        if has_fake_nodes
        else "Next, load an image of your own into its nodes:\n  jobset cluster image --help"
    )
    failure_command = (
        f"  kubectl annotate pod NAME {EXIT_CODE}=1     # make a fake pod fail\n" if has_fake_nodes else ""
    )
    console.print(
        f"\nThe cluster is up. Use it:\n"
        f"  export KUBECONFIG={cluster.kubeconfig}\n"
        f"  export PATH={Path(sys.executable).parent}{os.pathsep}{cluster.kubectl.parent}{os.pathsep}$PATH\n"
        f"  kubectl get jobsets\n"
        f"{failure_command}"
        f"  jobset ui     # JobSets on a page in the browser: http://{ADDRESS}/\n"
        f"The examples are in {EXAMPLES}\n"
        f"The log of the manager is {log}\n"
        f"The audit log of the API server, with the user of each request, is {cluster.audit_log}\n"
        f"A component that ends is started again. See whether all of them run:\n"
        f"  jobset cluster status\n"
        f"Remove the cluster at the end:\n"
        f"  jobset cluster down --name {cluster.name}\n"
        f"{next_step}",
        highlight=False,
    )


def wait_until(is_reached: Callable[[], bool], expectation: str) -> None:
    """Wait until `is_reached` returns True. Raises `LocalError` with the expectation after `STEP_SECONDS`."""
    deadline = time.monotonic() + STEP_SECONDS
    while not is_reached():
        if time.monotonic() > deadline:
            raise LocalError(f"waited {STEP_SECONDS} s for this, and it did not happen: {expectation}")
        time.sleep(0.2)
