"""The commands of the pages, run as a reader would, each page in a scene of its own (`support/pages/scenes.py`)."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.cluster.cluster import Cluster
from dev.local import free_port
from manifests import NAMESPACE, objects
from tests.support.cluster.kubelet import logging
from tests.support.cluster.manager import ManagerProcess
from tests.support.cluster.requests import kubectl
from tests.support.pages.commands import elsewhere
from tests.support.pages.files import commands
from tests.support.pages.reader import Reader
from tests.support.pages.scenes import SCENES

COMMANDS = [command for command in commands() if not elsewhere(command)]
OFTEN = {"docs/quick-start.md", "docs/concepts/node-failure.md", "docs/debugging.md", "docs/policy/admission.md"}
"""The pages of each run; those of the others are slow tests."""
PAGES = [page if page in OFTEN else pytest.param(page, marks=pytest.mark.slow) for page in SCENES]
POLICIES = {"statusInterval": "1s", "auditInterval": "1s"}


@pytest.fixture(scope="module")
def metrics(full_cluster: Cluster, manager_process: ManagerProcess, served_policies: None) -> Iterator[str]:
    """The address of the manager's metrics; there are pods that stand for it, with its log, and every pod has a log."""
    address = f"127.0.0.1:{free_port()}"
    gates = {"JobSetPolicies": True, "ElasticJobSet": True}
    manager_process.start(featureGates=gates, metrics={"bindAddress": address}, policies=POLICIES)
    [deployment] = [body for body in objects("manager/manager.yaml") if body["kind"] == "Deployment"]
    kubectl(full_cluster, "apply", "-f", "-", stdin=json.dumps(deployment))

    def log(namespace: str, pod: str) -> str:
        return manager_process.log() if namespace == NAMESPACE else f"hello from {pod}\n"

    with logging(full_cluster, log):
        kubectl(full_cluster, "rollout", "status", "-n", NAMESPACE, "deployment", deployment["metadata"]["name"])
        yield address
    kubectl(full_cluster, "delete", "-n", NAMESPACE, "deployment", deployment["metadata"]["name"])


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_do_what_it_says(
    page: str, full_cluster: Cluster, namespace: str, metrics: str, tmp_path: Path
):
    scene = SCENES[page]
    own = {"team-a": namespace, "namespace default": f"namespace {namespace}", "localhost:8443": metrics}
    own["jobset ui"] = f"jobset ui --address 127.0.0.1:{free_port()}"
    reader = Reader(full_cluster, namespace, tmp_path, {"NAMESPACE": namespace, **own, **scene.names})
    scene.prepare(reader)
    mine = [command for command in COMMANDS if command.page == page]
    first = [command for command in mine if command.text.startswith(scene.order or ("\n",))]
    try:
        for command in [*first, *(command for command in mine if command not in first)]:
            step = scene.step(command.text)
            step.before(reader)
            code, text = reader.run(command.text, until=step.says if step.goes_on else "")
            assert code == step.code, f"{command.text}: {text}"
            assert re.search(step.says, text), f"{command.text}: {text}"
    finally:
        scene.clean(reader)
