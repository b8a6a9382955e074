"""`jobset wait`, `restart`, `suspend` and `resume` on a real control plane."""

import io
import re

from cli.operate import change, logs, restart, wait
from tests.support.cluster.jobs import Sets, group, manifest


def waited(sets: Sets, state: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    to = {"namespace": sets.namespace, "kubeconfig": str(sets.cluster.kubeconfig)}
    code = wait.run(wait.Options(name="js", state=state, timeout=60, **to), out, err)
    return code, out.getvalue() + err.getvalue()


def changed(sets: Sets, *, suspend: bool) -> int:
    to = {"namespace": sets.namespace, "kubeconfig": str(sets.cluster.kubeconfig)}
    return change.run(change.Options(name="js", suspend=suspend, **to), io.StringIO(), io.StringIO())


def restarted(sets: Sets) -> int:
    to = {"namespace": sets.namespace, "kubeconfig": str(sets.cluster.kubeconfig)}
    return restart.run(restart.Options(name="js", timeout=60, **to), io.StringIO(), io.StringIO())


def logged(sets: Sets) -> tuple[int, str]:
    """The nodes are fake: the API server is asked for the log of each pod, and has none."""
    out, err = io.StringIO(), io.StringIO()
    to = {"namespace": sets.namespace, "kubeconfig": str(sets.cluster.kubeconfig)}
    return logs.run(logs.Options(name="js", **to), out, err), out.getvalue() + err.getvalue()


def test_a_set_is_suspended_resumed_and_waited_for(sets: Sets):
    sets.apply(manifest(group(replicas=2)))
    assert waited(sets, "ready") == (0, f"JobSet {sets.namespace}/js: ready\n")
    code, text = logged(sets)
    assert (code, re.match(r"\[js-workers-[01]/0 main\] and 1 more have no log", text) is not None) == (1, True), text
    assert changed(sets, suspend=True) == 0
    assert waited(sets, "suspended")[0] == 0
    assert sets.condition("Suspended")["status"] == "True"
    assert changed(sets, suspend=False) == 0
    assert waited(sets, "ready")[0] == 0
    assert sets.status()["executionAttempts"] == 1
    before = {pod["metadata"]["uid"] for pod in sets.pods()}
    assert restarted(sets) == 0
    assert waited(sets, "ready")[0] == 0
    assert sets.status()["executionAttempts"] == 2
    assert not before & {pod["metadata"]["uid"] for pod in sets.pods()}
    for pod in sets.pods():
        sets.end(pod)
    assert waited(sets, "completed")[0] == 0
    code, text = waited(sets, "failed")
    assert (code, "; it will never be failed" in text) == (1, True)
