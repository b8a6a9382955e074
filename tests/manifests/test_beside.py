"""`make run` beside an installed manager: what it says before it starts."""

import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dev.hack import beside
from kube.clock import rfc3339
from manifests import NAMESPACE
from manifests.naming import DEPLOYMENT

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def deployment(replicas: int, ready: int) -> dict[str, Any]:
    return {"spec": {"replicas": replicas}, "status": {"readyReplicas": ready} if ready else {}}


def lease(holder: str, age: float) -> dict[str, Any]:
    renewed = rfc3339(NOW - timedelta(seconds=age))
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}


def said(deployment: dict[str, Any], lease: dict[str, Any], kubeconfig: str = "/k") -> str:
    return beside.manager_notice(deployment, lease, NOW, "kubectl --context=x", kubeconfig)


def test_an_installed_manager_that_leads_is_told_of_with_the_commands():
    text = said(deployment(2, 2), lease("pod-a_1", 3))
    assert "A manager is installed in this cluster: 2 of 2 replicas are ready. pod-a_1 holds the lease" in text
    assert "renewed 3 s ago. The one that starts now only waits. The API server calls the webhooks of the ins" in text
    scale = f"  kubectl --context=x -n {NAMESPACE} scale deployment/{DEPLOYMENT}"
    assert f"{scale} --replicas=0 && .venv/bin/jobset webhooks off --kubeconfig=/k\n" in text
    assert "  make run KUBECONFIG=/k ARGS=--webhooks=false\n" in text
    assert f"{scale} --replicas=2 && .venv/bin/jobset webhooks on --kubeconfig=/k\n" in text
    assert "no defaults: their pods have no DNS names; docs/break-glass.md" in text
    assert "--kubeconfig" not in said(deployment(2, 2), lease("pod-a_1", 3), kubeconfig="")


@pytest.mark.parametrize("free", [{}, lease("", 3), lease("pod-a_1", 16), {"spec": {}}])
def test_one_that_does_not_run_holds_no_lease_and_answers_nothing(free):
    text = said(deployment(2, 0), free)
    assert "0 of 2 replicas are ready. None holds the lease: the one that starts now takes it" in text
    assert "which do not answer: JobSets can be neither created nor changed." in text
    assert "only waits" not in text


@pytest.mark.parametrize("none", [{}, deployment(0, 0)])
def test_another_process_with_the_lease_is_named(none):
    assert said(none, lease("laptop_1", 0.4)).startswith("laptop_1 holds the lease (jobset-system/6d4f6a47.jobset")
    assert said(none, lease("laptop_1", 99)) == ""
    ends = "  pgrep -fa 'jobset manager|cli manager'\n  kill NUMBER\n"
    assert said(none, lease("laptop_1", 0)).endswith(
        f" on the machine, or in the pod, laptop. There, the first command gives the NUMBER for the second:\n{ends}"
    )
    here = said(none, lease(f"{socket.gethostname()}_1", 0))
    assert here.endswith(f" on this machine. There, the first command gives the NUMBER for the second:\n{ends}")
    assert said(none, {}) == ""


def test_the_manager_of_a_local_cluster_is_named_with_the_commands_that_end_it():
    kept = beside.KeptManager("demo", 4711, "--name demo")
    text = beside.manager_notice({}, lease("laptop_1", 0), NOW, "kubectl", "/k", kept)
    assert "It is the manager of the local cluster demo, which starts it again whenever it ends." in text
    assert "  kill 4711\n" in text
    assert text.endswith("  .venv/bin/jobset cluster down --name demo\n")


@pytest.mark.parametrize(
    ("process", "default", "flags"), [(7, True, "--name a"), (7, False, "--name a --state-dir "), (None, True, "")]
)
def test_a_kubeconfig_of_a_local_cluster_leads_to_its_manager(tmp_path, monkeypatch, process, default, flags):
    found = SimpleNamespace(kept_process=lambda _: {"process": process} if process else {})
    monkeypatch.setattr(beside.cluster, "get", lambda name, state_root: found)
    monkeypatch.setattr(beside, "default_state_root", lambda: tmp_path if default else tmp_path / "other")
    kept = beside._kept_manager(str(tmp_path / "a" / "kubeconfig"))
    assert (kept is None) == (process is None)
    if kept is not None:
        assert (kept.name, kept.process) == ("a", 7)
        assert kept.flags == flags + ("" if default else str(tmp_path))


def test_a_kubeconfig_of_another_cluster_has_none(tmp_path):
    assert beside._kept_manager(str(tmp_path / "config")) is None


def test_it_asks_for_deployment_and_lease_and_ignores_a_cluster_that_does_not_answer(tmp_path: Path, capsys):
    kubectl = tmp_path / "kubectl"
    found = json.dumps(deployment(1, 1))
    kubectl.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n'
        f"case $* in *deployment/*) echo '{found}' ;; *) echo no route >&2; exit 1 ;; esac\n"
    )
    kubectl.chmod(0o755)
    beside.main([str(kubectl), "--context=x"])
    assert "1 of 1 replicas are ready. None holds the lease" in capsys.readouterr().err
    first, second = (tmp_path / "asked").read_text().splitlines()
    assert first.startswith(f"--context=x -n {NAMESPACE} get deployment/{DEPLOYMENT} --ignore-not-found")
    assert second.startswith(f"--context=x -n {NAMESPACE} get lease/6d4f6a47.jobset.x-k8s.io --ignore-not-found")
