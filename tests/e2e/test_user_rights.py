"""Users with the roles `edit` and `view` of Kubernetes, and what docs/rights.md says that they may do."""

import io
import json
from collections.abc import Callable

import pytest

from cli.explain import run as explain
from cli.operate import change
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import kubectl, wait_for


@pytest.fixture
def user(sets) -> Callable[[str], str]:
    """Gives somebody a role in the namespace; gives the kubeconfig of this user."""

    def with_role(role: str) -> str:
        name = f"{role}-{sets.namespace}"
        kubectl(
            sets.cluster,
            "create",
            "rolebinding",
            role,
            f"--clusterrole={role}",
            "--user",
            name,
            namespace=sets.namespace,
        )
        wait_for(lambda: may(sets, name, "get"), what=f"what {role} may do")
        return str(sets.cluster.kubeconfig_for(name))

    return with_role


def may(sets, name: str, verb: str) -> bool:
    answer = kubectl(
        sets.cluster, "auth", "can-i", verb, "jobsets", "--as", name, namespace=sets.namespace, check=False
    )
    return "yes" in answer.split()


def by(sets, kubeconfig: str, *args: str, stdin: str | None = None) -> str:
    """What kubectl says to that user; its own --kubeconfig is the last."""
    return kubectl(sets.cluster, *args, "--kubeconfig", kubeconfig, namespace=sets.namespace, stdin=stdin, check=False)


def suspended(sets, kubeconfig: str, *, suspend: bool) -> int:
    options = change.Options(name="js", suspend=suspend, namespace=sets.namespace, kubeconfig=kubeconfig)
    return change.run(options, io.StringIO(), io.StringIO())


def test_who_may_edit_a_namespace_writes_jobsets_there_and_who_may_view_it_reads(sets, user):
    editor, viewer = user("edit"), user("view")
    body = json.dumps(manifest(group(replicas=2)))
    assert "cannot create resource" in by(sets, viewer, "create", "-f", "-", stdin=body)
    assert "created" in by(sets, editor, "create", "-f", "-", stdin=body)
    assert "cannot create resource" in by(sets, editor, "create", "-n", "default", "-f", "-", stdin=body)
    sets.wait_ready(2)
    assert "js" in by(sets, viewer, "get", "jobsets")
    assert suspended(sets, viewer, suspend=True) == 2
    assert suspended(sets, editor, suspend=True) == 0
    assert suspended(sets, editor, suspend=False) == 0
    assert "cannot patch resource" in by(sets, editor, "patch", "jobset", "js", "--subresource=status", "-p", "{}")
    assert "cannot delete resource" in by(sets, viewer, "delete", "jobset", "js")
    assert "deleted" in by(sets, editor, "delete", "jobset", "js")


def test_who_may_view_a_namespace_is_told_why_a_jobset_waits(sets, user):
    sets.apply(manifest(group(pod={"nodeSelector": {"no": "node"}})))
    out = io.StringIO()
    options = explain.Options(name="js", namespace=sets.namespace, kubeconfig=user("view"))
    sets.wait_explained("not scheduled")
    explain.run(options, out, io.StringIO())
    said = out.getvalue()
    assert "not scheduled" in said
    left_out = [line for line in said.splitlines() if line.startswith("not looked at")]
    assert all("nodes" in line or "jobset-system" in line for line in left_out), said
    assert left_out
