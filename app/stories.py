"""What `jobset demo` can show: each story plays one example and fails loudly when it goes another way.

They drive the cluster by kubectl alone, as a person would, and must not start or stop anything.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from app.commands import Commands
from app.demo import ACCELERATOR, Demo, Status, Story, events, jobs, run
from app.local import LocalError, kubectl

EXAMPLES = Path(__file__).parent.parent / "examples"
RJOB = "jobset.sigs.k8s.io/replicatedjob-name"
PODS = "/api/v1/namespaces/default/pods"
INITIALIZERS, TRAINERS = 2, 4
VOLUMES = {"workspace-fine-tuning": ("200Gi", "ReadWriteMany"), "export-fine-tuning": ("50Gi", "ReadWriteOnce")}
"""Claims of the fine-tuning example: size and access mode. The local cluster provisions no volumes."""


def training(demo: Demo) -> None:
    """From creation through a failure and a restart to the end; then a manifest with mistakes."""
    kubectl(demo.cluster, "apply", "-f", str(EXAMPLES / "training.yaml"))
    demo.say("applied examples/training.yaml: 1 coordinator, 2 x 4 workers, maxRestarts 3")
    demo.watch_until(lambda status: jobs(status, "ready") == 3, "all Jobs ready")
    demo.say("all pods run; now one worker of workers-1 fails with exit code 1")
    demo.end(demo.pods(**{RJOB: "workers"})[-1:], 1)
    demo.watch_until(lambda status: status.get("restarts") == 1 and jobs(status, "ready") == 3, "the restarted set")
    demo.say("the set has been restarted and runs again; now every pod succeeds")
    demo.end(demo.pods(), 0)
    _show_the_end(demo)
    demo.say("now kubectl apply -f examples/mistakes.yaml, which has seven mistakes, of every kind:")
    answer = kubectl(demo.cluster, "apply", "-f", str(EXAMPLES / "mistakes.yaml"), check=False)
    if answer.returncode == 0:
        raise LocalError("examples/mistakes.yaml was accepted")
    demo.console.print(answer.stderr.rstrip(), style="yellow", highlight=False)


def fine_tuning(demo: Demo) -> None:
    """Three stages; accelerators are held by the second one alone."""
    _make_volumes(demo)
    before = json.loads(kubectl(demo.cluster, "get", "--raw", f"{PODS}?limit=1").stdout)["metadata"]["resourceVersion"]
    kubectl(demo.cluster, "apply", "-f", str(EXAMPLES / "fine-tuning" / "jobset.yaml"))
    demo.say("applied examples/fine-tuning: initializer x 2, then trainer x 4 with 8 accelerators each, post-processor")
    demo.watch_until(_reached("initializer", "ready", INITIALIZERS), "both initializers run")
    demo.say("model and data are being fetched; the accelerators are free for others. Now the model is there")
    demo.end(demo.pods(**{RJOB: "initializer"})[:1], 0)
    demo.watch_until(_reached("initializer", "succeeded", 1), "one initializer done")
    demo.say("half of it does not release anything. Now the data are there, too")
    demo.end(demo.pods(**{RJOB: "initializer"}), 0)
    demo.watch_until(_reached("trainer", "ready", TRAINERS), "all trainers ready")
    demo.say(f"the trainers run on 32 accelerators. {no_early_accelerators(_history(demo, before))}")
    demo.end(demo.pods(**{RJOB: "trainer"}), 0)
    demo.watch_until(_reached("post-processor", "ready", 1), "the post-processor runs")
    demo.say("the trainers are done and their accelerators free again; the result is being exported")
    demo.end(demo.pods(), 0)
    _show_the_end(demo)


STORIES: Final = {"training": Story("training", training), "fine-tuning": Story("fine-tuning", fine_tuning)}


def add_demo(commands: Commands) -> None:
    """Register `demo`."""
    parser = commands.add_parser("demo", help="run a JobSet on a local control plane, as a story that is checked")
    parser.add_argument(
        "story",
        nargs="?",
        default="training",
        choices=STORIES,
        help="training (default): through failure and restart; fine-tuning: three stages",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave cluster and manager running, and say how to use them"
    )
    parser.set_defaults(handler=lambda parsed: run(STORIES[parsed.story], keep=parsed.keep))


def _show_the_end(demo: Demo) -> None:
    demo.watch_until(lambda status: status.get("terminalState") == "Completed", "Completed")
    demo.console.print(kubectl(demo.cluster, "get", "jobset").stdout.rstrip(), highlight=False)
    demo.say("Completed. What happened, as its events say:")
    for event in events(demo.cluster):
        demo.console.print(f"         {event}", highlight=False)


def _reached(rjob: str, count: str, wanted: int) -> Callable[[Status], bool]:
    def reached(status: Status) -> bool:
        of = next((of for of in status.get("replicatedJobsStatus", ()) if of["name"] == rjob), None)
        return of is not None and of[count] == wanted

    return reached


def _make_volumes(demo: Demo) -> None:
    """A volume for each claim of the example, and for no other."""
    volumes = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": claim},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": [mode],
                "claimRef": {"namespace": "default", "name": claim},
                "hostPath": {"path": "/fake"},
            },
        }
        for claim, (size, mode) in VOLUMES.items()
    ]
    kubectl(demo.cluster, "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": volumes}))


def no_early_accelerators(history: str) -> str:
    """Checks that no pod with accelerators existed before the initializers were done; says so, or raises `LocalError`.

    `history` is a watch of pods from before the JobSet was created, one change a line.
    """
    states = _states(history)
    done: set[str] = set()
    for pod in states:
        if _wants_accelerators(pod) and len(done) < INITIALIZERS:
            raise LocalError(
                f"pod {pod['metadata']['name']} wants accelerators and was there when {len(done)} of {INITIALIZERS}"
                " initializers were done"
            )
        if pod["metadata"]["labels"][RJOB] == "initializer" and pod["status"]["phase"] == "Succeeded":
            done.add(pod["metadata"]["name"])
    return f"Checked in all {len(states)} changes of pods: none that wants accelerators was there before"


def _history(demo: Demo, since: str) -> str:
    """The changes of pods since then, one a line: no pod is missed."""
    return kubectl(demo.cluster, "get", "--raw", f"{PODS}?watch=1&resourceVersion={since}&timeoutSeconds=1").stdout


def _states(history: str) -> list[dict[str, Any]]:
    """Every state that a pod was in, in order."""
    changes = [json.loads(line) for line in history.splitlines()]
    if any(change["type"] == "ERROR" for change in changes):
        raise LocalError(f"the history of the pods cannot be read: {changes[-1]['object'].get('message')}")
    return [change["object"] for change in changes]


def _wants_accelerators(pod: dict[str, Any]) -> bool:
    containers = pod["spec"]["containers"]
    return any(ACCELERATOR in (container["resources"].get("limits") or ()) for container in containers)
