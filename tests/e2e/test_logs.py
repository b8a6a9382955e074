"""One JobSet can be followed through the log of a real manager, with the command of docs/debugging.md."""

import re
import subprocess
from pathlib import Path

from tests.support.cluster.jobs import JOBSETS, group, manifest
from tests.support.cluster.requests import request, wait_for

PAGE = (Path(__file__).parents[2] / "docs" / "debugging.md").read_text(encoding="utf-8")
(COMMAND,) = re.findall(r"^kubectl logs .*jsonpath.*$", PAGE, re.MULTILINE)


def followed(sets, manager, tmp_path: Path, name: str) -> list[str]:
    """What the command prints about a set."""
    log = tmp_path / "manager.log"
    log.write_text(manager.log())
    get = f"{sets.cluster.kubectl} --kubeconfig {sets.cluster.kubeconfig} -n {sets.namespace} get jobset {name}"
    command = re.sub(r"^kubectl logs [^|]+", f"cat {log} ", COMMAND).replace("kubectl get jobset train", get)
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout.splitlines()  # noqa: S602


def test_a_set_is_followed_by_its_uid_from_its_admission_on(sets, manager, tmp_path):
    other = {**manifest(group(replicas=1)), "metadata": {"name": "other"}}
    sets.apply(other)
    sets.apply(manifest(group(replicas=2)))
    sets.wait_ready(2)
    sets.patch({"suspend": True})
    where = f"{sets.namespace}/js"
    order = [
        rf"admitted CREATE {where} .* generation=1\b",
        rf"jobset {where}: create 1 Service, create 2 Jobs.* generation=1\b",
        rf"admitted UPDATE {where} .* generation=2\b",
        rf"jobset {where}: .*Suspended=True .* generation=2\b",
    ]
    wait_for(lambda: re.search(order[-1], manager.log()), what="the line about the suspension")
    lines = followed(sets, manager, tmp_path, "js")
    found = [next(number for number, line in enumerate(lines) if re.search(part, line)) for part in order]
    assert found[0] == 0
    assert not [line for line in lines if "/other" in line]


def test_a_generated_name_and_its_uid_are_known_at_admission(sets, manager, tmp_path):
    body = {**manifest(group(replicas=1)), "metadata": {"generateName": "some-"}}
    status, created = request(sets.cluster, "POST", JOBSETS.format(sets.namespace), body)
    assert status == 201, created
    name = created["metadata"]["name"]
    wait_for(lambda: f"{name}: create" in manager.log(), what="the controller's line")
    first = followed(sets, manager, tmp_path, name)[0]
    assert f"admitted CREATE {sets.namespace}/{name}" in first
    (review,) = re.findall(r"requestUID=(\S+)", first)
    audited = f'"vjobset.kb.io/request-uid":"{review}"'
    wait_for(lambda: audited in sets.cluster.audit_log.read_text(), what="the UID of the review in the audit log")


def test_a_refusal_is_a_line_without_the_faults(sets, manager):
    status, _ = request(sets.cluster, "POST", JOBSETS.format(sets.namespace), manifest(group(), managedBy="nobody"))
    assert status == 422
    assert f"refused CREATE {sets.namespace}/js: 422 Invalid" in manager.log()
    assert "managedBy" not in manager.log()


def test_the_first_line_has_version_cluster_and_gates(manager):
    words = r"jobset v\S+ starts for https://\S+ \(kubeconfig .*, context '.*'\); feature gates: .*InPlaceRestart=(true|false), "
    assert re.search(words, manager.log().splitlines()[0])
