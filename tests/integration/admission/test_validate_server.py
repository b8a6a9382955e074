"""`jobset validate --server` says what `kubectl apply` would, where our webhooks answer: with the manager's feature gates."""

import io
import json

from cli import main as cli
from tests.support.cluster.admission_calls import create, manifest
from tests.support.cluster.requests import kubectl_apply, request
from tests.support.objects.jobsets import JSON, rjob

OTHER = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "other", "uid": "u"}


def validated(server, js: JSON, tmp_path, capsys, *words: str) -> tuple[int, JSON]:
    file = tmp_path / "js.json"
    file.write_text(json.dumps(js), encoding="utf-8")
    code = cli.main(["validate", str(file), "--server", f"--kubeconfig={server.kubeconfig}", "-o", "json", *words])
    return code, json.load(io.StringIO(capsys.readouterr().out))


def test_a_gate_that_is_off_there_is_a_fault_at_the_field(server, ns, tmp_path, capsys):
    js = manifest(ns, rjob(), activeDeadlineSeconds=60)
    code, report = validated(server, js, tmp_path, capsys)
    assert (code, [finding["path"] for finding in report["findings"]]) == (1, ["spec.activeDeadlineSeconds"])
    assert report["findings"][0]["message"].startswith("Forbidden: ")
    assert "JobSetActiveDeadlineSeconds" in report["findings"][0]["message"]


def paths(report: JSON) -> list[str]:
    return [finding["path"] for finding in report["findings"] if finding["severity"] == "error"]


def test_with_other_faults_a_gate_that_is_off_there_is_said_as_well(server, ns, tmp_path, capsys):
    js = manifest(ns, rjob(), activeDeadlineSeconds=60, coordinator={"replicatedJob": "no"}, typo=1)
    js["metadata"]["labels"] = {"free": "two words"}
    wrong = ["metadata.labels.free", "spec.activeDeadlineSeconds", "spec.coordinator.replicatedJob", "spec.typo"]
    code, report = validated(server, js, tmp_path, capsys)
    assert (code, sorted(paths(report))) == (1, wrong), report


def test_an_update_with_other_faults_is_held_to_the_gates_there(server, ns, tmp_path, capsys):
    js = manifest(ns, rjob(), failurePolicy={"maxRestarts": 1})
    create(server, ns, js)
    js["spec"] |= {"activeDeadlineSeconds": 60, "failurePolicy": {"maxRestarts": "2"}, "typo": 1}
    js["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 3
    wrong = [
        "spec.activeDeadlineSeconds",
        "spec.failurePolicy.maxRestarts",
        "spec.replicatedJobs[0].template.spec.backoffLimit",
        "spec.typo",
    ]
    code, report = validated(server, js, tmp_path, capsys)
    assert (code, sorted(paths(report))) == (1, wrong), report


def test_a_gate_that_is_on_there_needs_no_flag(server, ns, tmp_path, capsys):
    js = manifest(ns, rjob(replicas=2))
    create(server, ns, js)
    js["spec"]["replicatedJobs"][0]["replicas"] = 3  # the gate ElasticJobSet
    assert validated(server, js, tmp_path, capsys)[0] == 0
    kubectl_apply(server, ns, js)


def test_what_admission_warns_about_is_said_once(server, ns, tmp_path, capsys):
    js = manifest(ns, rjob(), coordinator={"replicatedJob": "w"}, network={"enableDNSHostnames": False})
    js["spec"]["coordinator"]["replicatedJob"] = js["spec"]["replicatedJobs"][0]["name"]
    code, report = validated(server, js, tmp_path, capsys, "--strict")
    assert (code, len(report["findings"]), report["warnings"]) == (1, 1, 1), report


def test_what_all_nodes_have_together_is_too_little_at_once(server, ns, tmp_path, capsys):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    job = rjob("w", replicas=3, pod={"restartPolicy": "Never", "containers": [container]})
    job["template"]["metadata"] = {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}}
    meta = {"name": ns, "labels": {"example.com/rack": "r"}}
    node = {"metadata": meta, "status": {"allocatable": {"cpu": "7", "pods": "9"}}}
    status, answer = request(server, "POST", "/api/v1/nodes", node)
    assert status == 201, answer
    try:
        code, report = validated(server, manifest(ns, job), tmp_path, capsys)
    finally:
        request(server, "DELETE", f"/api/v1/nodes/{ns}")
    assert code == 0, report
    said = {finding["rule"]: finding["message"] for finding in report["findings"]}
    assert said.keys() == {"nodes-too-few", "exclusive-domains-too-few"}
    assert "needs 9 cpu at once, all nodes offer 7: its pods never run all at once" in said["nodes-too-few"]
    assert "3 exclusive Jobs at once, nodes have 1 value of example.com/rack" in said["exclusive-domains-too-few"]


def test_what_only_the_user_may_read_is_not_said_a_second_time_without_it(server, ns, tmp_path, capsys):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "80"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    js = manifest(ns, rjob("w", pod=pod))
    meta = {"ownerReferences": [{**OTHER, "controller": True}]}
    name = js["metadata"]["name"]
    spec = js["spec"]["replicatedJobs"][0]["template"]["spec"]
    job = {"metadata": {**meta, "name": f"{name}-w-0"}, "spec": spec}
    service = {"metadata": {**meta, "name": name}, "spec": {"clusterIP": "None"}}
    node = {"metadata": {"name": ns}, "status": {"allocatable": {"cpu": "7", "pods": "9"}}}
    for path, body in (
        (f"/api/v1/namespaces/{ns}/services", service),
        (f"/apis/batch/v1/namespaces/{ns}/jobs", job),
        (f"/api/v1/namespaces/{ns}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "70"}}}),
        ("/api/v1/nodes", node),
    ):
        status, answer = request(server, "POST", path, body)
        assert status == 201, answer
    try:
        code, report = validated(server, js, tmp_path, capsys)
    finally:
        request(server, "DELETE", f"/api/v1/nodes/{ns}")
    assert code == 0
    assert sorted((finding["rule"], finding["path"].rpartition(".")[2]) for finding in report["findings"]) == [
        ("child-job-exists", "name"),
        ("nodes-too-small", "cpu"),
        ("quota-too-small", "replicatedJobs[0]"),
        ("service-shared", "name"),
    ], report
