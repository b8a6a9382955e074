"""The example of a CronJob: its ServiceAccount may do what its containers do, and nothing else."""

from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import yaml

from cli.main import main
from dev.cluster.cluster import Cluster
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import MERGE, kubectl, request, wait_for
from tests.support.pages.files import ROOT

FILE = ROOT / "examples/cron.yaml"
OBJECTS = {each["kind"]: each for each in yaml.safe_load_all(FILE.read_text(encoding="utf-8"))}
MANIFEST = OBJECTS["ConfigMap"]["data"]["jobset.yaml"]
POD = OBJECTS["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_the_jobset_in_the_config_map_is_good(tmp_path, capsys):
    (tmp_path / "jobset.yaml").write_text(MANIFEST)
    assert main(["validate", "--strict", str(tmp_path / "jobset.yaml")]) == 0, capsys.readouterr().out


def collect_garbage(server: Cluster, path: str, deletion: Future[str]) -> None:
    """Do what the garbage collector does once the Jobs are gone; none runs here. kubectl has to wait for it."""
    wait_for(lambda: "deletionTimestamp" in request(server, "GET", path)[1]["metadata"], what="the deletion")
    with pytest.raises(TimeoutError):
        deletion.result(timeout=1)
    free = {"metadata": {"finalizers": None}}
    assert request(server, "PATCH", path, free, content=MERGE)[0] == 200


def test_two_nights_with_the_rights_of_the_example(server, ns):
    kubectl(server, "apply", "-f", str(FILE), namespace=ns)
    account = f"--as=system:serviceaccount:{ns}:nightly"

    def may(*words: str) -> bool:
        return "yes" in kubectl(server, "auth", "can-i", *words, account, namespace=ns, check=False).split()

    def run(container) -> str:
        words = [word.replace("/jobset/jobset.yaml", "-") for word in container["command"][1:]]
        return kubectl(server, *words, account, namespace=ns, stdin=MANIFEST if "-" in words else None)

    wait_for(lambda: may("create", "jobsets"), what="the binding to be known")
    assert not may("delete", "jobsets/other")
    assert not may("list", "pods")
    delete, create = POD["initContainers"]
    [wait] = POD["containers"]
    path = f"{JOBSETS.format(ns)}/nightly"
    uids: list[str] = []
    for _ in range(2):
        with ThreadPoolExecutor(1) as beside:
            deletion = beside.submit(run, delete)
            if uids:
                collect_garbage(server, path, deletion)
            deletion.result()
        run(create)
        uids.append(request(server, "GET", path)[1]["metadata"]["uid"])
        ended = {"status": {"terminalState": "Completed"}}
        request(server, "PATCH", f"{path}/status", ended, content=MERGE)
        assert "condition met" in run(wait)
    assert len({*uids}) == 2
