"""From the API server's message about a child Job to a place in the JobSet and a fix.

The messages are those of Kubernetes 1.37; that they are still so is tested in tests/integration/dry_run/.
"""

import pytest

from api.features import FeatureGates
from kube.errors import Cause, Details, Status, from_status
from kube.model.field import ErrorType, FieldError
from kube.resources import JOBS
from tests.support.objects.jobsets import jobset, rjob, stored
from webhooks.jobset.cluster.children import ChildJob, child_jobs
from webhooks.jobset.cluster.faults import job_faults
from webhooks.jobset.cluster.verdict import Verdict, verdict
from webhooks.jobset.subject import subject_of

POD = "spec.replicatedJobs[0].template.spec.template"
GATES = FeatureGates()
CLAIM = {"volumeClaimPolicies": [{"templates": []}, {"templates": [{"metadata": {"name": "data"}, "spec": {}}]}]}


def child(**spec) -> ChildJob:
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "shm", "emptyDir": {}}]
    mounts = [{"name": "dta", "mountPath": "/x"}, {"name": "data", "mountPath": "/d"}]
    containers = [{"name": "main", "image": "i", "volumeMounts": mounts}, {"name": "side", "image": "i"}]
    raw = stored(jobset(rjob(pod={"volumes": volumes, "containers": containers}), **{**CLAIM, **spec}))
    raw["metadata"]["annotations"] = {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
        "alpha.jobset.sigs.k8s.io/node-selector": "true",
    }
    return child_jobs(raw, subject_of(raw, GATES).js, GATES, [0])[0]


def faults(*causes: tuple[str, str], reason: str = "FieldValueInvalid", **spec) -> list[FieldError]:
    return job_faults(child(**spec), [Cause(field=field, message=message, reason=reason) for field, message in causes])


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("spec.backoffLimit", "spec.replicatedJobs[0].template.spec.backoffLimit"),
        ("spec.template.spec.containers[1].image", f"{POD}.spec.containers[1].image"),
        ("spec.template.labels", f"{POD}.metadata.labels"),
        ("spec.template.annotations", f"{POD}.metadata.annotations"),
        ("spec.template.metadata.labels", f"{POD}.metadata.labels"),
        ("metadata.labels", "spec.replicatedJobs[0].template.metadata.labels"),
        ("metadata.name", "spec.replicatedJobs[0].name"),
        ("metadata.ownerReferences[0].uid", "spec.replicatedJobs[0].template"),
        ("", "spec.replicatedJobs[0].template"),
        ("spec.template.spec.volumes[1].name", f"{POD}.spec.volumes[1].name"),
        ("spec.template.spec.volumes[2].name", "spec.volumeClaimPolicies[1].templates[0].metadata.name"),
        ("spec.template.spec.volumes[2].persistentVolumeClaim.claimName", "spec.volumeClaimPolicies[1].templates[0]"),
        ("spec.template.spec.tolerations[0].key", "spec.replicatedJobs[0].name"),
        ("spec.template.spec.subdomain", "metadata.name"),
    ],
)
def test_places_are_those_of_the_jobset(field, place):
    [error] = faults((field, "Invalid value: bad"))
    assert str(error) == f"{place}: Invalid value: bad"


OWN = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
R = "spec.replicatedJobs[{}]"
WRITTEN = f"{R}.template.spec.podFailurePolicy"


@pytest.mark.parametrize(
    ("own", "field", "place"),
    [
        (0, "spec.podFailurePolicy", f"{R}.exitCodePolicy"),
        (0, "spec.podFailurePolicy.rules", f"{R}.exitCodePolicy"),
        (0, "spec.podFailurePolicy.rules[0].onExitCodes.values[3]", f"{R}.exitCodePolicy"),
        (0, "spec.podFailurePolicy.rules[1].onExitCodes.containerName", f"{R}.exitCodePolicy.containerName"),
        (2, "spec.podFailurePolicy", WRITTEN),
        (2, "spec.podFailurePolicy.rules", f"{WRITTEN}.rules"),
        (2, "spec.podFailurePolicy.rules[1].action", f"{WRITTEN}.rules[1].action"),
        (2, "spec.podFailurePolicy.rules[2].action", f"{R}.exitCodePolicy"),
        (2, "spec.podFailurePolicy.rules[3].onExitCodes.containerName", f"{R}.exitCodePolicy.containerName"),
        (2, "spec.podReplacementPolicy", f"{R}.template.spec.podReplacementPolicy"),
    ],
)
def test_faults_of_compiled_rules_are_placed_at_each_policy_that_shares_them(own, field, place):
    job = {"podFailurePolicy": {"rules": [OWN] * own}} if own else {}
    policies = [{"containerName": "a"}, {"containerName": "b"}, {"containerName": "a"}, None]
    raw = stored(jobset(*(rjob(f"r{i}", job=job, exitCodePolicy=policy) for i, policy in enumerate(policies))))
    jobs = child_jobs(raw, subject_of(raw, GATES).js, GATES, range(4))
    assert [child.equal_indices for child in jobs] == [(0, 2), (1,), (3,)]
    found = job_faults(jobs[0], [Cause(field=field, message="Invalid value: bad", reason="FieldValueInvalid")])
    assert [str(error.path) for error in found] == [place.format(0), place.format(2)]
    [plain] = job_faults(jobs[2], [Cause(field="spec.podFailurePolicy", message="bad", reason="FieldValueInvalid")])
    assert str(plain.path) == WRITTEN.format(3)


@pytest.mark.parametrize(("amount", "whole"), [("500m", 1), ("2500m", 3)])
def test_a_part_of_a_device_gets_the_whole_number(amount, whole):
    field = "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]"
    [error] = faults((field, f'Invalid value: "{amount}": must be an integer'))
    assert error.fix == f"devices are whole numbers: write {whole}"


def test_a_key_in_brackets_is_one_step_whatever_is_in_it():
    [error] = faults(("spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]", "Invalid value: bad"))
    assert error.path.parts[-2:] == ("limits", "nvidia.com/gpu")


@pytest.mark.parametrize(
    ("value", "place"),
    [("/d", "volumeMounts[1].mountPath"), ("/x", "volumeMounts[0].mountPath"), ("/y", "volumeMounts")],
)
def test_an_index_that_the_api_server_leaves_out_is_that_of_the_offending_value(value, place):
    [error] = faults(("spec.template.spec.containers[0].volumeMounts.mountPath", f'Invalid value: "{value}": bad'))
    assert str(error.path) == f"{POD}.spec.containers[0].{place}"


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("spec.template.labels", "train-workers-0", "spec.replicatedJobs[0].name"),
        ("spec.template.spec.nodeSelector", "default_train-workers-0", "spec.replicatedJobs[0].name"),
        ("metadata.labels", "g", "spec.replicatedJobs[0].groupName"),
        ("metadata.labels", "train", "metadata.name"),
        ("spec.template.labels", "train-workers-0-0.train", "spec.coordinator"),
        ("spec.template.labels", "mine", f"{POD}.metadata.labels"),
        ("spec.template.spec.containers[1].name", "workers", f"{POD}.spec.containers[1].name"),
    ],
)
def test_names_that_the_controller_writes_lead_to_where_they_come_from(field, value, place):
    js = {"replicatedJobs": [rjob(groupName="g")], "coordinator": {"replicatedJob": "workers"}}
    raw = stored(jobset(**js))
    raw["metadata"]["annotations"] = child().raw["metadata"]["annotations"]
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"].append({"name": "workers"})
    [job] = child_jobs(raw, subject_of(raw, GATES).js, GATES, [0])
    [error] = job_faults(job, [Cause(field=field, message=f'Invalid value: "{value}": bad')])
    assert str(error.path) == place


@pytest.mark.parametrize(
    ("field", "message", "reason", "fix"),
    [
        ("restartPolicy", 'Required value: valid values: "OnFailure", "Never"', "Required", "write OnFailure or Never"),
        (
            "restartPolicy",
            'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified',
            "Invalid",
            "write Never, or remove podFailurePolicy",
        ),
        ("containers[0].image", "Required value", "Required", "name the image to run"),
        ("initContainers[0].image", "Required value", "Required", "name the image to run"),
        ("containers", "Required value", "Required", "give the pod a container with name and image"),
        (
            "containers[0].resources.requests",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
            "Invalid",
            "lower the request or raise the limit",
        ),
        (
            "containers[0].resources.limits",
            "Required value: Limit must be set for non overcommitable resources",
            "Required",
            "set the same amount under limits",
        ),
        ("volumes[1].name", 'Duplicate value: "v"', "Duplicate", "give each a name of its own"),
        (
            "containers[0].volumeMounts[0].name",
            'Not found: "scratchy"',
            "NotFound",
            'did you mean "scratch"? volumes are: "scratch", "shm", "data"',
        ),
        (
            "containers[0].imagePullPolicy",
            'Unsupported value: "IfNotpresent": supported values: "Always", "IfNotPresent", "Never"',
            "NotSupported",
            'did you mean "IfNotPresent"?',
        ),
        (
            "containers[0].imagePullPolicy",
            'Unsupported value: "Foo": supported values: "Always", "IfNotPresent", "Never"',
            "NotSupported",
            "",
        ),
        ("containers[0].name", 'Invalid value: "Main": a lowercase RFC 1123 label must consist of', "Invalid",
         """use lower case letters, digits and '-', such as "main\""""),
        ("containers[0].hostPort", "Invalid value: 70000: must be between 1 and 65535, inclusive", "Invalid", ""),
    ],
)  # fmt: skip
def test_frequent_faults_come_with_a_fix(field, message, reason, fix):
    [error] = faults((f"spec.template.spec.{field}", message), reason=f"FieldValue{reason}")
    assert (error.complaint, error.fix) == (message, fix)
    assert error.type.value in {f"FieldValue{reason}", ErrorType.INVALID.value}


def test_a_container_of_another_name_is_suggested():
    field = "spec.podFailurePolicy.rules[0].onExitCodes.containerName"
    message = 'Invalid value: "maim": must be one of the container or initContainer names in the pod template'
    assert faults((field, message))[0].fix == 'did you mean "main"? containers are: "main", "side"'


def test_a_selector_is_one_fault_and_the_answer_is_the_same_every_time():
    uid = "fcfc1c9a-9a0e-4a9a-bb55-9ec79635e47f"
    selector = f'{{"matchLabels":{{"a":"b","batch.kubernetes.io/controller-uid":"{uid}"}}}}'
    [error] = faults(
        ("spec.selector", f"Invalid value: {selector}: `selector` not auto-generated"),
        ("spec.template.metadata.labels", "Invalid value: {}: `selector` does not match template `labels`"),
    )
    assert str(error) == (
        "spec.replicatedJobs[0].template.spec.selector: Invalid value: `selector` not auto-generated; remove selector: every Job gets one of its own"
    )


@pytest.mark.parametrize("field", ["spec.template.spec.containers[2].image", "spec.template.spec.volumes[3].name"])
def test_what_a_mutating_webhook_adds_is_no_fault_of_the_jobset(field):
    [found] = faults((field, "Required value"))
    assert found.is_warning
    assert found.detail == f"Jobs would be refused now: a mutating webhook makes {field} invalid"


OWN = 'Job.batch "j" is invalid: spec.backoffLimit: Invalid value: -1: no'
POLICY = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"


@pytest.mark.parametrize(
    ("code", "reason", "kind", "message", "expected"),
    [
        (422, "Invalid", "Job", OWN, Verdict.FAULTY),
        (422, "Invalid", "jobs", f'jobs.batch "j" is forbidden: {POLICY}', Verdict.REFUSED),
        (422, "Invalid", "Job", f'admission webhook "w" denied the request: {OWN}', Verdict.REFUSED),
        (403, "Forbidden", "jobs", f'jobs.batch "j" is forbidden: {POLICY}', Verdict.REFUSED),
        (403, "Forbidden", "jobs", 'jobs.batch "j" is forbidden: exceeded quota: q', Verdict.REFUSED),
        (404, "NotFound", "namespaces", 'namespaces "n" not found', Verdict.REFUSED),
        (400, "BadRequest", "", 'admission webhook "w" does not support dry run', Verdict.REFUSED),
        (413, "RequestEntityTooLarge", "", "limit is 3145728", Verdict.REFUSED),
        (409, "AlreadyExists", "jobs", 'jobs.batch "j" already exists', Verdict.EXISTS),
        (409, "Conflict", "resourcequotas", "try again", Verdict.REFUSED),
        (401, "Unauthorized", "", "Unauthorized", Verdict.UNKNOWN),
        (429, "TooManyRequests", "", "wait", Verdict.UNKNOWN),
        (500, "InternalError", "", 'Internal error occurred: failed calling webhook "w"', Verdict.UNKNOWN),
        (504, "Timeout", "", "request did not complete", Verdict.UNKNOWN),
    ],
)
def test_only_the_api_servers_own_verdict_is_a_fault(code, reason, kind, message, expected):
    causes = (Cause(reason="FieldValueInvalid", message="no", field="spec.backoffLimit"),)
    status = Status(message=message, reason=reason, code=code, details=Details(kind=kind, causes=causes))
    assert verdict(from_status(status), JOBS) is expected


def test_a_refusal_without_causes_names_no_fault():
    error = from_status(Status(message=OWN, reason="Invalid", code=422, details=Details(kind="Job")))
    assert verdict(error, JOBS) is Verdict.REFUSED
