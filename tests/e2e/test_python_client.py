"""Both Python clients on a real control plane: what they promise, with a manager that reconciles."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from jobset_client import JobSet, errors
from jobset_client.builders import jax, mpi, torchrun
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import wait_for
from tests.support.pages.files import ROOT
from tests.support.pages.pasted import Pasted
from tests.support.python_clients import CLIENTS, Face, aio


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS.keys())
def client(request: pytest.FixtureRequest, sets: Sets) -> Face:
    return request.param(kubeconfig=str(sets.cluster.kubeconfig), namespace=sets.namespace)


def a_set(**spec: Any) -> JobSet:
    return JobSet.from_dict(manifest(group(replicas=2), **spec))


def test_a_set_is_created_waited_for_restarted_and_seen_to_its_end(client: Face, sets: Sets):
    made = client.create(a_set())
    assert (made.metadata.name, made.spec.success_policy.operator) == ("js", "All")
    assert client.wait("js", "ready", timeout=60).status.replicated_jobs_status[0].ready == 2
    assert [js.metadata.uid for js in client.list()] == [made.metadata.uid]
    assert client.patch("js", {"metadata": {"labels": {"team": "a"}}}).metadata.labels["team"] == "a"
    assert "team" not in client.patch("js", {"metadata": {"labels": {"team": None}}}).metadata.labels
    replace = pytest.warns(errors.JobSetWarning, match="to replace it and its pods")
    with replace, pytest.raises(errors.ApiError, match="Value is immutable"):
        client.patch("js", {"spec": {"successPolicy": {"operator": "Any"}}})
    before = {pod["metadata"]["uid"] for pod in sets.pods()}
    assert client.restart("js", timeout=60).spec.suspend is False
    assert client.wait("js", "ready", timeout=60).status.execution_attempts == 1
    assert not before & {pod["metadata"]["uid"] for pod in sets.pods()}
    assert client.suspend("js").spec.suspend is True
    assert client.wait("js", "suspended", timeout=60).status.conditions
    client.resume("js")
    client.wait("js", "ready", timeout=60)
    with pytest.raises(errors.WaitTimeoutError, match=r"not completed after 0\.2 s"):
        client.wait("js", "completed", timeout=0.2)
    for pod in sets.pods():
        sets.end(pod)
    assert client.wait("js", timeout=60).status.terminal_state == "Completed"
    with pytest.raises(errors.NeverError, match=r"has completed at .*; it will never be failed"):
        client.wait("js", "failed", timeout=60)
    client.delete("js")
    wait_for(lambda: client.list() == [], what="the end of the JobSet")


def test_a_watch_tells_of_every_change_until_the_set_is_gone(client: Face, sets: Sets):
    client.create(a_set(suspend=True))
    (event,) = client.first("watch", 1, name="js")
    assert (event.type, event.jobset.metadata.name) == ("ADDED", "js")
    client.delete("js")
    kinds = [event.type for event in client.first("watch", 99, timeout=1)]
    assert set(kinds) <= {"ADDED", "MODIFIED", "DELETED"}


def test_what_admission_says_arrives(client: Face, sets: Sets):
    body = manifest(group(replicas=2), failurePolicy={"restartStrategy": "Recreated"}, unknown=1)
    wrong = JobSet.from_dict(body, keep_unknown=True)
    with pytest.raises(errors.JobSetError, match=r"(?s)cannot create JobSet .*spec.unknown: unknown field"):
        client.create(wrong)
    wrong = a_set(
        coordinator={"replicatedJob": "workers", "jobIndex": 5}, successPolicy={"targetReplicatedJobs": ["x"]}
    )
    with pytest.raises(errors.ApiError, match=r"spec.coordinator.jobIndex: Invalid value: 5") as caught:
        client.create(wrong, dry_run=True)
    assert "spec.successPolicy.targetReplicatedJobs" in str(caught.value)
    assert client.create(a_set(), dry_run=True).metadata.name == "js"
    with pytest.raises(
        errors.NotFoundError, match=r'cannot get JobSet .*/js: jobsets\.jobset\.x-k8s\.io "js" not found'
    ):
        client.get("js")
    client.create(a_set(suspend=True))
    with pytest.raises(errors.AlreadyExistsError, match="delete it first"):
        client.create(a_set())


def test_logs_and_explanations(client: Face, sets: Sets):
    """The nodes are fake: the API server is asked for the log of each pod, and has none."""
    client.create(a_set())
    client.wait("js", "ready", timeout=60)
    logs = client.first("logs", 9, "js")
    assert [(log.job, log.index, log.container) for log in logs] == [(f"js-workers-{n}", "0", "main") for n in (0, 1)]
    assert all("cannot get the log of pod js-workers-" in log.missing for log in logs)
    runs = f"JobSet {sets.namespace}/js: runs\n  workers: of 2 Jobs 2 ready"
    wait_for(lambda: str(client.explain("js")).startswith(runs), what="the explanation")


def test_what_is_built_is_admitted(client: Face):
    for js in (
        torchrun("a", "i", ["train.py"], nodes=4, processes=8, limits={"cpu": 4}, max_restarts=3),
        jax("b", "i", ["python"], processes=2),
        mpi("c", "i", ["/pi"], workers=2, ssh_secret="keys"),
    ):
        assert client.create(js, dry_run=True).metadata.name == js.metadata.name


def test_the_page_runs(sets: Sets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Every piece of Python on docs/python-client.md, in its order, as somebody would paste it."""
    aio()
    config = yaml.safe_load(sets.cluster.kubeconfig.read_text(encoding="utf-8"))
    for context in config["contexts"]:
        context["context"]["namespace"] = sets.namespace
    (tmp_path / "config").write_text(yaml.safe_dump(config), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    page = Pasted(ROOT / "docs/python-client.md")
    page.until_the_end()
    sets.wait_ready(1, "train")
    for pod in sets.pods(name="train"):
        sets.end(pod)
    page.to_the_end()
    shown = capsys.readouterr().out
    assert "Completed" in shown
    assert "kind: JobSet" in shown
    wait_for(lambda: sets.get("train") is None, what="the end of the JobSet")
