"""Success by share (successPolicy.minSucceeded), and "worker 0 decides", on the full control plane."""

from pathlib import Path

import yaml

from tests.support.cluster.requests import history, version_now, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
RJOB = "jobset.sigs.k8s.io/replicatedjob-name"
PODS = "/api/v1/namespaces/{}/pods"
INDEX = "batch.kubernetes.io/job-completion-index"


def example(name: str) -> dict:
    return yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())


def test_at_80_percent_the_set_is_completed_and_the_rest_ended_gracefully(sets):
    name = "partial-success"
    sets.apply(example(name))
    sets.wait_ready(12, name)
    workers = sets.pods(f"{RJOB}=worker", name)
    for pod in workers[:7]:
        sets.end(pod)
    wait_for(lambda: sets.counts(name)["succeeded"] == 7, what="7 of 10")
    assert "terminalState" not in sets.status(name)
    rest = {pod["metadata"]["name"] for pod in workers[8:]}
    path = PODS.format(sets.namespace)
    since = version_now(sets.cluster, path)
    sets.end(workers[7])
    sets.wait_state("Completed", name)
    condition = sets.condition("Completed", name)
    assert condition["reason"] == "MinSucceededReached"
    assert condition["message"] == ("jobset completed successfully: 8 of 10 Jobs have succeeded, minSucceeded is 80%")
    event = ("Normal", condition["reason"], condition["message"])
    wait_for(lambda: event in sets.events(name), what="the event")

    wait_for(lambda: sets.pods("", name) == [], what="no pod of the set runs any more")
    wait_for(lambda: len(sets.jobs(name)) == 8, what="the Jobs that have succeeded are kept, the others are gone")
    assert all(job["status"]["succeeded"] == 1 for job in sets.jobs(name))
    grace = {
        change["object"]["metadata"]["name"]: change["object"]["metadata"]["deletionGracePeriodSeconds"]
        for change in history(sets.cluster, path, since)
        if change["object"]["status"]["phase"] == "Running" and "deletionTimestamp" in change["object"]["metadata"]
    }
    assert {pod: grace.get(pod) for pod in rest} == dict.fromkeys(rest, 60), "they were asked to end, in their own time"


def test_worker_0_decides(sets):
    name = "worker-0-decides"
    sets.apply(example(name))
    sets.wait_ready(1, name)
    by_index = {pod["metadata"]["labels"][INDEX]: pod for pod in sets.pods("", name)}
    sets.end(by_index["3"])
    wait_for(lambda: sets.jobs(name)[0]["status"].get("succeeded") == 1, what="another worker has succeeded")
    assert "terminalState" not in sets.status(name)
    sets.end(by_index["0"])
    sets.wait_state("Completed", name)
    wait_for(lambda: sets.pods("", name) == [], what="the other workers are ended")
    assert sets.counts(name)["succeeded"] == 1
