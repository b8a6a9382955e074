"""The stories of `jobset demo`. Each story plays one example, and fails if the example goes differently.

The stories use only kubectl and jobset, as a user does. The caller starts and stops the cluster.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from authoring.examples import EXAMPLES
from cli.extras import EXTRA
from dev.demo.demo import ACCELERATOR, STEP_SECONDS, Demo, Status, Story, count_jobs, event_lines, run, wait_until
from dev.local import LocalError, kubectl
from kube.clock import now, rfc3339
from kube.model.versions import COMPILED_RULES, parse_version

RJOB = "jobset.sigs.k8s.io/replicatedjob-name"
PODS = "/api/v1/namespaces/default/pods"
INITIALIZERS, TRAINERS = 2, 4
TENANT = ("example.com/tenant=true", "quota.example.com/gpus=16")
POLICY = "policy tenants"
PROGRAM = (sys.executable, "-P", "-m", "cli")
EXCEPTED_SECONDS = 30
"""How long the exception of the platform story lasts."""


def play_training(demo: Demo) -> None:
    """Play a JobSet from its creation through a failure and a restart to its end, then a manifest with mistakes."""
    kubectl(demo.cluster, "apply", "-f", str(EXAMPLES / "training.yaml"))
    demo.say("applied examples/training.yaml: 1 coordinator, 2 x 4 workers, maxRestarts 3")
    demo.watch_until(lambda status: count_jobs(status, "ready") == 3, "all Jobs ready")
    demo.say("all pods run; now one worker of workers-1 fails with exit code 1")
    demo.end(demo.pods(**{RJOB: "workers"})[-1:], 1)
    demo.watch_until(
        lambda status: status.get("restarts") == 1 and count_jobs(status, "ready") == 3, "the restarted set"
    )
    demo.say("the set has been restarted and runs again. Why? jobset explain training")
    explained = _run_jobset("explain", demo.name, "--kubeconfig", str(demo.cluster.kubeconfig))
    demo.console.print(explained.rstrip(), highlight=False, markup=False)
    demo.say("now every pod succeeds")
    demo.end(demo.pods(), 0)
    _show_the_end(demo)
    demo.say("now kubectl apply -f examples/mistakes.yaml, which has seven mistakes, of every kind:")
    answer = kubectl(demo.cluster, "apply", "-f", str(EXAMPLES / "mistakes.yaml"), check=False)
    if answer.returncode == 0:
        raise LocalError("examples/mistakes.yaml was accepted")
    demo.console.print(answer.stderr.rstrip(), style="yellow", highlight=False)


def play_fine_tuning(demo: Demo) -> None:
    """Play a JobSet of three stages, of which only the second uses accelerators."""
    pods_before = json.loads(kubectl(demo.cluster, "get", "--raw", f"{PODS}?limit=1").stdout)
    kubectl(demo.cluster, "apply", "-f", str(EXAMPLES / "fine-tuning" / "jobset.yaml"))
    demo.say("applied examples/fine-tuning: initializer x 2, then trainer x 4 with 8 accelerators each, post-processor")
    demo.watch_until(_has_reached("initializer", "ready", INITIALIZERS), "both initializers run")
    demo.say("model and data are being fetched; the accelerators are free for others. Now the model is there")
    demo.end(demo.pods(**{RJOB: "initializer"})[:1], 0)
    demo.watch_until(_has_reached("initializer", "succeeded", 1), "one initializer done")
    demo.say("half of it does not release anything. Now the data are there, too")
    demo.end(demo.pods(**{RJOB: "initializer"}), 0)
    demo.watch_until(_has_reached("trainer", "ready", TRAINERS), "all trainers ready")
    history = _pod_history(demo, pods_before["metadata"]["resourceVersion"])
    demo.say(f"the trainers run on 32 accelerators. {check_no_early_accelerators(history)}")
    demo.end(demo.pods(**{RJOB: "trainer"}), 0)
    demo.watch_until(_has_reached("post-processor", "ready", 1), "the post-processor runs")
    demo.say("the trainers are done and their accelerators free again; the result is being exported")
    demo.end(demo.pods(), 0)
    _show_the_end(demo)


def play_platform(demo: Demo) -> None:
    """Play a tenant's JobSet, which a policy refuses, then an exception admits.

    After the end of the exception, the policy refuses a second run. Without webhooks, the API server refuses a third.
    """
    folder = EXAMPLES / "platform"
    jobset, policy = folder / "jobset.yaml", folder / "policy.yaml"
    kubectl(demo.cluster, "label", "--overwrite", "namespace", "default", *TENANT)
    kubectl(demo.cluster, "apply", "-f", str(policy))
    demo.say(f"stored examples/platform/policy.yaml; namespace default has the labels {', '.join(TENANT)}")
    _show_refusal(demo, "kubectl apply -f examples/platform/jobset.yaml, which wants 32 GPUs", jobset)
    _store_exception(demo, folder / "exception.yaml")
    wait_until(lambda: kubectl(demo.cluster, "apply", "-f", str(jobset), check=False).returncode == 0, "the exception")
    demo.say("the same again: admitted, because of the exception")
    demo.watch_until(lambda status: count_jobs(status, "ready") == 2, "all Jobs ready")
    ttl = demo.jobset()["spec"]["ttlSecondsAfterFinished"]
    demo.say(f"it runs on 32 GPUs; spec.ttlSecondsAfterFinished is {ttl}, by default of the policy")
    _show_refusal(demo, "the exception has ended: the second run that it is about is refused", jobset, "final-run-2")
    _show_that_the_api_server_refuses(demo, policy, jobset)
    demo.say("the first run goes on; now every pod succeeds")
    demo.end(demo.pods(), 0)
    _show_the_end(demo)


STORIES: Final = {
    "training": Story("training", play_training),
    "fine-tuning": Story("fine-tuning", play_fine_tuning),
    "platform": Story("final-run", play_platform, policies=True),
}


def play(name: str, *, keep: bool) -> int:
    """Play the story with this name. Returns the exit code. Missing programs are reported before a cluster starts."""
    from app.manager import process  # noqa: F401, PLC0415 (raises where the extra is not installed)

    if not EXAMPLES.is_dir():
        sys.stderr.write(f"jobset demo: the examples that it plays are not in {EXAMPLES}: install {EXTRA} again\n")
        return 1
    return run(STORIES[name], keep=keep)


def _store_exception(demo: Demo, file: Path) -> None:
    """Store the exception of the example so that it ends soon."""
    body = yaml.safe_load(file.read_text(encoding="utf-8"))
    body["spec"]["expiresAt"] = rfc3339(now() + timedelta(seconds=EXCEPTED_SECONDS))
    kubectl(demo.cluster, "apply", "-f", "-", stdin=json.dumps(body))
    demo.say(f"the platform team grants {file.parent.name}/{file.name}, which ends after {EXCEPTED_SECONDS} s here")


def _show_that_the_api_server_refuses(demo: Demo, policy: Path, jobset: Path) -> None:
    """Show that the API server refuses by itself, with the policy as rules in it, and after `jobset webhooks off`."""
    server = parse_version(kubectl(demo.cluster, "get", "--raw", "/version").stdout.encode())
    if too_old := COMPILED_RULES.shortfall(server):
        demo.say(f"the last step is left out: {too_old}")
        return
    kubeconfig = ("--kubeconfig", str(demo.cluster.kubeconfig))
    compiled = _run_jobset("policy", "export", "-p", str(policy), "--only", "vap")
    kubectl(demo.cluster, "apply", "--server-side", "-f", "-", stdin=compiled)
    demo.say(
        "jobset policy export -p examples/platform/policy.yaml --only vap | kubectl apply --server-side -f -;"
        " jobset webhooks off"
    )
    _run_jobset("webhooks", "off", *kubeconfig)
    try:
        message = (
            "no webhook is asked, as if the manager were gone: the API server refuses by itself, also for want of the"
            " ttl, which is a default of the webhook"
        )
        _show_refusal(demo, message, jobset, "final-run-3", refuser="ValidatingAdmissionPolicy")
    finally:
        _run_jobset("webhooks", "on", *kubeconfig)
        kubectl(demo.cluster, "delete", "-f", "-", stdin=compiled)


def _run_jobset(*args: str) -> str:
    """Run `jobset` with these arguments, and return its output. Raises `LocalError` if it fails."""
    result = subprocess.run([*PROGRAM, *args], capture_output=True, text=True, check=False, timeout=STEP_SECONDS)  # noqa: S603 (ourselves)
    if result.returncode != 0:
        raise LocalError(f"jobset {' '.join(args)} failed:\n{result.stderr.strip()[:2000]}")
    return result.stdout


def _show_refusal(demo: Demo, message: str, file: Path, name: str = "", refuser: str = "The JobSet") -> None:
    """Try to create the JobSet of a file until a policy refuses it, then show the answer.

    `name`: another name for the JobSet, or empty. `refuser`: a word of the answer that tells which component refuses.
    """
    body = yaml.safe_load(file.read_text(encoding="utf-8"))
    body["metadata"]["name"] = name or body["metadata"]["name"]
    answers: list[str] = []

    def is_refused() -> bool:
        answer = kubectl(demo.cluster, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(body), check=False)
        answers.append(answer.stderr)
        return answer.returncode != 0 and POLICY in answer.stderr and refuser in answer.stderr

    wait_until(is_refused, "the refusal")
    demo.say(message)
    demo.console.print(answers[-1].rstrip(), style="yellow", highlight=False, markup=False)


def _show_the_end(demo: Demo) -> None:
    demo.watch_until(lambda status: status.get("terminalState") == "Completed", "Completed")
    demo.console.print(kubectl(demo.cluster, "get", "jobset").stdout.rstrip(), highlight=False)
    demo.say("Completed. What happened, as its events say:")
    for event in event_lines(demo.cluster):
        demo.console.print(f"         {event}", highlight=False)


def _has_reached(rjob: str, count: str, number: int) -> Callable[[Status], bool]:
    def has_number(status: Status) -> bool:
        entry = next((entry for entry in status.get("replicatedJobsStatus", ()) if entry["name"] == rjob), None)
        return entry is not None and entry[count] == number

    return has_number


def check_no_early_accelerators(history: str) -> str:
    """Check that no pod with accelerators existed before the initializers had succeeded.

    Returns a sentence that says so, or raises `LocalError`. `history` is a watch of pods from before the JobSet was
    created, one change a line.
    """
    pod_states = _pod_states(history)
    succeeded_initializers: set[str] = set()
    for pod in pod_states:
        if _wants_accelerators(pod) and len(succeeded_initializers) < INITIALIZERS:
            raise LocalError(
                f"pod {pod['metadata']['name']} wants accelerators and was there when {len(succeeded_initializers)}"
                f" of {INITIALIZERS} initializers were done"
            )
        if pod["metadata"]["labels"][RJOB] == "initializer" and pod["status"]["phase"] == "Succeeded":
            succeeded_initializers.add(pod["metadata"]["name"])
    return f"Checked in all {len(pod_states)} changes of pods: none that wants accelerators was there before"


def _pod_history(demo: Demo, resource_version: str) -> str:
    """Return all changes of pods since that version, one a line."""
    path = f"{PODS}?watch=1&resourceVersion={resource_version}&timeoutSeconds=1"
    return kubectl(demo.cluster, "get", "--raw", path).stdout


def _pod_states(history: str) -> list[dict[str, Any]]:
    """Return every state that a pod was in, oldest first. Raises `LocalError` if the history has an error."""
    changes = [json.loads(line) for line in history.splitlines()]
    if any(change["type"] == "ERROR" for change in changes):
        raise LocalError(f"the history of the pods cannot be read: {changes[-1]['object'].get('message')}")
    return [change["object"] for change in changes]


def _wants_accelerators(pod: dict[str, Any]) -> bool:
    containers = pod["spec"]["containers"]
    return any(ACCELERATOR in (container["resources"].get("limits") or ()) for container in containers)
