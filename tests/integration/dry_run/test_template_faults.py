"""What a real API server refuses about the children of a JobSet, and where in the JobSet it is placed."""

from typing import Any

from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES
from tests.support.cluster.dry_run import POD, SPEC, administrator, ask, ask_about, container, errors, pod, storage
from tests.support.cluster.requests import kubectl
from tests.support.objects.jobsets import JSON, jobset, rjob


async def test_warnings_of_the_api_server_are_passed_on_once(server, manager, ns):
    kubectl(server, "label", "namespace", ns, "pod-security.kubernetes.io/warn=restricted")
    found = await ask(manager, ns, rjob("a", parallelism=1), rjob("b", parallelism=2))
    assert errors(found) == []
    [warning] = [error for error in found if error.is_warning]
    assert str(warning.path) == "spec.replicatedJobs[0]"
    assert warning.detail.startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false')
    assert warning.detail.endswith(("...", '"Localhost")'))


async def test_a_good_jobset_is_found_good_and_nothing_is_made(server, manager, ns):
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage("1Gi")}}
    worker = rjob(pod=pod(container(volumeMounts=[{"name": "data", "mountPath": "/d"}])), replicas=3)
    found = await ask(manager, ns, worker, suspend=True, volumeClaimPolicies=[{"templates": [claim]}])
    assert found == []
    async with administrator(server) as client:
        for resource in (JOBS, SERVICES, PERSISTENT_VOLUME_CLAIMS):
            assert not (await client.list(resource, namespace=ns)).items


def codes(**fields: Any) -> JSON:
    return {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3], **fields}}


async def test_the_rules_compiled_from_an_exit_code_policy_are_accepted(manager, ns):
    own = {"podFailurePolicy": {"rules": [codes()]}}
    policies = ({}, {"permanent": [7, 5]}, {"retryable": [9], "containerName": "main"})
    rjobs = [rjob(f"r{i}", pod=pod(restartPolicy="Never"), exitCodePolicy=policy) for i, policy in enumerate(policies)]
    both = rjob("both", pod=pod(restartPolicy="Never"), job=own, exitCodePolicy={})
    assert await ask(manager, ns, *rjobs, both) == []


async def test_a_fault_of_the_compiled_rules_is_placed_at_the_policy(manager, ns):
    """Asked without the checks of the object, which know most of these faults themselves."""
    bad = {"restartPolicy": "Never"}
    own = {"podFailurePolicy": {"rules": [codes(containerName="x"), codes(containerName="main")]}}
    found = await ask(
        manager,
        ns,
        rjob("a", pod=pod(**bad), exitCodePolicy={"retryable": [3], "containerName": "mainn"}),
        rjob("b", pod=pod(**bad), exitCodePolicy={"permanent": [3]}),
        rjob("c", pod=pod(**bad), job=own, exitCodePolicy={"permanent": [3], "containerName": "y"}),
        rjob("d", pod=pod(**bad), exitCodePolicy={"retryable": [3], "containerName": "mainn"}),
    )
    place = "spec.replicatedJobs[{}].exitCodePolicy.containerName"
    assert {(str(error.path), error.value) for error in found} == {
        (place.format(0), "mainn"),
        (place.format(2), "y"),
        (place.format(3), "mainn"),
        ("spec.replicatedJobs[2].template.spec.podFailurePolicy.rules[0].onExitCodes.containerName", "x"),
    }
    assert {error.rule.id for error in found if error.rule} == {"child-pod-failure-container"}
    assert 'did you mean "main"?' in {error.fix for error in found}


async def test_rules_that_are_too_many_together_are_placed_where_some_of_them_are_written(manager, ns):
    own = {"podFailurePolicy": {"rules": [codes(containerName="main")] * 19}}
    job = {**rjob("a", pod=pod(restartPolicy="Never"), job=own), "exitCodePolicy": {}}
    [error] = await ask(manager, ns, job)
    assert (str(error.path), "20" in str(error)) == (f"{SPEC}.podFailurePolicy.rules", True)


async def test_what_cannot_be_decoded_is_found_with_the_rest(manager, ns):
    bad = rjob(
        parallelism=3_000_000_000,
        pod=pod(
            container(env=[{"name": "A", "value": "1"}, {"name": "B", "value": 2}]),
            container(name="side", resources={"limits": {"cpu": "1x"}}),
            nodeSelector={"zone": True},
            restartPolicy="Always",
        ),
    )
    found = await ask(manager, ns, bad)
    assert sorted((str(error.path), error.value, error.fix) for error in found) == sorted(
        [
            (f"{SPEC}.parallelism", 3_000_000_000, "write a whole number that fits into int32, without quotes"),
            (f"{POD}.containers[0].env[1].value", 2, "put it in quotes"),
            (f"{POD}.containers[1].resources.limits.cpu", "1x", "write an amount such as 500m, 2 or 1Gi"),
            (f"{POD}.nodeSelector.zone", True, "put it in quotes"),
            (f"{POD}.restartPolicy", "Always", "write OnFailure or Never"),
        ]
    )


async def test_bad_metadata_of_pods_is_placed_where_it_was_written(manager, ns):
    template = {
        "metadata": {"labels": {"team": "a b"}, "annotations": {"a b": "c"}},
        "spec": pod(restartPolicy="Never"),
    }
    job = rjob(job={"template": template})
    job["template"]["metadata"] = {"labels": {"job": "a b"}}
    found = await ask(manager, ns, job)
    assert sorted(str(error.path) for error in found) == [
        "spec.replicatedJobs[0].template.metadata.labels",
        f"{SPEC}.template.metadata.annotations",
        f"{SPEC}.template.metadata.labels",
    ]


async def test_names_that_are_too_long_or_wrong_are_placed_where_they_come_from(manager, ns):
    found = await ask(manager, ns, rjob("w" * 60), network={"subdomain": "s" * 64})
    assert {str(error.path) for error in found} == {"spec.replicatedJobs[0].name", "spec.network.subdomain"}
    dotted = jobset(namespace=ns, name="a.b")
    assert {str(error.path) for error in await ask_about(manager, dotted)} == {
        "metadata.name",
        "spec.replicatedJobs[0].name",
    }
