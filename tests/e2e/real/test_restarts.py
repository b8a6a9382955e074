"""Restarts on real nodes: ten in a row in place, of programs that ignore SIGTERM, and what is left of a hang."""

import io
import itertools
from typing import Any

import pytest

from cli.operate import logs
from dev.hack.node_images import AGENT
from tests.e2e.real.test_lost_nodes import IN_PLACE, account
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.real import running
from tests.support.cluster.requests import kubectl, uids, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
JSON = dict[str, Any]
FAILURES = 10
FAILS_TEN_TIMES = f"""
import os, signal, time
first = os.environ["JOB_COMPLETION_INDEX"] == "0"
with open("/tmp/starts", "a+") as starts:
    starts.write(f"{{time.time()}} ")
    starts.seek(0)
    attempt = len(starts.read().split())
if attempt > {FAILURES} or not first:
    signal.pause()
time.sleep(1)
raise SystemExit(7)
"""
FAILS_WHEN_ASKED = """
import os, time
while not os.path.exists("/tmp/fail"):
    time.sleep(0.1)
raise SystemExit(3)
"""
HANGS_ONCE = """
import faulthandler, os, signal, time
faulthandler.register(signal.SIGUSR1, all_threads=True)

def waits_for_a_peer():
    time.sleep(3600)

print("step=1", flush=True)
if not os.path.exists("/tmp/hung"):
    open("/tmp/hung", "w").close()
    waits_for_a_peer()
"""
WATCHDOG = {"PROGRESS_DEADLINE_SECONDS": "3", "HEARTBEAT_LOG_PATTERN": "step=", "STACK_DUMP_SIGNAL": "SIGUSR1"}


def in_place(sets: Sets, program: str, workers: int, restarts: int, **container: Any) -> JSON:
    """A set of one Job whose workers restart in their pods."""
    pod = running(["python3", "-c", program], serviceAccountName=account(sets), restartPolicy="OnFailure")
    pod["containers"][0] |= container
    policy = {"maxRestarts": restarts, "restartStrategy": "InPlaceRestart"}
    policy["agent"] = {"image": AGENT, "mode": "MainContainer"}
    return manifest(group(pods_per_job=workers, pod=pod, job=IN_PLACE), failurePolicy=policy)


def test_ten_failures_in_a_row_restart_no_container_and_each_is_known(real_sets: Sets, record_property):
    real_sets.apply(in_place(real_sets, FAILS_TEN_TIMES, 4, FAILURES))
    real_sets.wait_ready(1)
    before = real_sets.pods()
    real_sets.wait_attempt(FAILURES, timeout=90)
    after = real_sets.pods()
    assert uids(after) == uids(before)
    assert {status["restartCount"] for pod in after for status in pod["status"]["containerStatuses"]} == {0}
    failed = next(pod["metadata"]["name"] for pod in after if "-0-0-" in pod["metadata"]["name"])
    known = [(entry["pod"], entry["exitCode"]) for entry in real_sets.status()["attemptHistory"]]
    assert known == [(failed, 7)] * FAILURES
    said = kubectl(real_sets.cluster, "exec", failed, "--", "cat", "/tmp/starts", namespace=real_sets.namespace)
    starts = [float(word) for word in said.split()]
    slowest = max(after - before - 1 for before, after in itertools.pairwise(starts))
    record_property("ms of the slowest of ten restarts in place", round(slowest * 1000))
    assert slowest < 10, "the first pause of a kubelet before it starts a container again"


@pytest.mark.parametrize(("fail_on", "at_once"), [("FailureTarget", 3), ("", 2)], ids=["at once", "in a row"])
def test_how_many_pods_that_ignore_sigterm_end_at_a_time(real_sets: Sets, fail_on: str, at_once: int):
    pod = running(["python3", "-c", FAILS_WHEN_ASKED], terminationGracePeriodSeconds=8)
    policy = {"maxRestarts": 1, **({"failOn": fail_on} if fail_on else {})}
    real_sets.apply(manifest(group(replicas=2, pods_per_job=2, pod=pod), failurePolicy=policy))
    real_sets.wait_ready(2)
    before = real_sets.pods()
    failed = next(pod["metadata"]["name"] for pod in before if "-workers-0-0-" in pod["metadata"]["name"])
    kubectl(real_sets.cluster, "exec", failed, "--", "touch", "/tmp/fail", namespace=real_sets.namespace)
    counts = {0}

    def runs_again() -> bool:
        ending = [pod for pod in real_sets.pods(ending=True) if "deletionTimestamp" in pod["metadata"]]
        counts.add(len(uids(ending) & uids(before)))
        return real_sets.status().get("restarts") == 1 and real_sets.counts()["ready"] == 2

    wait_for(runs_again, timeout=60, what="the restart", last=real_sets.explain)
    assert max(counts) == at_once


def test_the_stack_of_a_hang_outlives_the_attempt(real_sets: Sets):
    env = [{"name": name, "value": value} for name, value in WATCHDOG.items()]
    real_sets.apply(in_place(real_sets, HANGS_ONCE, 2, 1, env=env))
    real_sets.wait_state("Completed", timeout=90)
    out = io.StringIO()
    options = logs.Options(
        name="js", namespace=real_sets.namespace, kubeconfig=str(real_sets.cluster.kubeconfig), previous=True
    )
    assert logs.run(options, out, out) == 0, out.getvalue()
    assert "exit code 124" in out.getvalue()
    assert "in waits_for_a_peer" in out.getvalue()
