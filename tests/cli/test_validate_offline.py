"""What `jobset validate` says without a server about what only the API server refuses, and about other kinds."""

from typing import Any

import pytest

from api.features import FeatureGates
from authoring.checks import Checks
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.rules.success import NO_JOBS

CLAIM = "spec.volumeClaimPolicies[0].templates[0].spec"
VOLUME = "spec.replicatedJobs[0].template.spec.template.spec.volumes[0].emptyDir"


def claim(**spec: Any) -> JSON:
    mount = {"name": "main", "image": "b", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    template = {"metadata": {"name": "data"}, "spec": spec}
    pod = {"restartPolicy": "Never", "containers": [mount]}
    return jobset(rjob(pod=pod), volumeClaimPolicies=[{"templates": [template]}])


def volume(**empty_dir: Any) -> JSON:
    return jobset(rjob(pod={"restartPolicy": "Never", "volumes": [{"name": "x", "emptyDir": empty_dir}]}))


@pytest.mark.parametrize(
    ("js", "path", "fix"),
    [
        (claim(resources={"requests": {"storage": "1Gi"}}), f"{CLAIM}.accessModes", ""),
        (claim(accessModes=["ReadWriteOnce"]), f"{CLAIM}.resources.requests.storage", ""),
        (
            claim(accessModes=["ReadWriteOnce"], resources={"requests": {"storage": "0"}}),
            f"{CLAIM}.resources.requests.storage",
            "",
        ),
        (
            claim(accessModes=3, resources={"requests": {"storage": "1Gi"}}),
            f"{CLAIM}.accessModes",
            "write it as a list",
        ),
        (jobset(rjob(replicas="0100")), "spec.replicatedJobs[0].replicas", "write 100 without quotes"),
        (volume(sizeLimit="-1"), f"{VOLUME}.sizeLimit", ""),
        (volume(mode="0755"), f"{VOLUME}.mode", "write 493 without quotes, which is 0755 octal"),
        (
            jobset(
                rjob(),
                failurePolicy={"rules": [{"action": "FailJobSet", "onJobFailureReasons": ["NodeFailure"]}]},
            ),
            "spec.failurePolicy.rules[0].onJobFailureReasons[0]",
            "set failurePolicy.nodeFailure, without which",
        ),
        (jobset(rjob(), runPolicy={"cleanPodPolicy": "None"}), "spec.runPolicy", "it belongs to a training job"),
    ],
)
def test_a_fault_is_named_alone_and_at_its_place(js: JSON, path: str, fix: str):
    checks = Checks(FeatureGates(), "default")
    errors = checks.findings_about_new(checks.prepare(js)).errors
    assert [str(error.path) for error in errors] == [path]
    assert errors[0].fix.startswith(fix)


def test_a_training_job_that_is_called_a_jobset_is_named_once():
    checks = Checks(FeatureGates(), "default")
    spec = {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": {"Master": {"replicas": 1}}}
    found = checks.findings_about_new(checks.prepare({**jobset(), "spec": spec}))
    [error] = found.errors
    assert (str(error.path), found.warnings) == ("spec.pytorchReplicaSpecs", ())
    assert error.fix.startswith("it belongs to a PyTorchJob: `jobset init --from FILE` makes a JobSet of")
    [warning] = checks.findings_about_new(checks.prepare({**jobset(), "spec": {}})).warnings
    assert warning.rule is NO_JOBS, "a set that has nothing wrong but no Jobs is told so"


def test_jobs_of_v1alpha1_are_read_as_replicated_jobs():
    checks = Checks(FeatureGates(), "default")
    former = {"metadata": {"name": "a"}, "spec": {"jobs": [rjob()], "runPolicy": {}}}
    meant, found = checks.engine.schema.with_right_names(former)
    assert [(str(error.path), name) for error, name in found] == [("spec.jobs", "replicatedJobs")]
    assert meant["spec"]["replicatedJobs"][0]["name"] == rjob()["name"]
    assert meant["spec"]["runPolicy"] == {}
