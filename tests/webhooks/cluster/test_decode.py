"""Places of values that the API server cannot decode: its answers name Go types and paths without indices."""

import pytest

from webhooks.jobset.cluster.decode import DecodeProblem, decode_problem

PREFIX = 'Job in version "v1" cannot be handled as a Job: '
QUANTITIES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def pod(*containers, **spec):
    return {"spec": {"parallelism": 1, "template": {"spec": {"containers": list(containers), **spec}}}}


@pytest.mark.parametrize(
    ("body", "reported", "place"),
    [
        (
            {"spec": {"parallelism": 3000000000}},
            "number 3000000000 into Go struct field JobSpec.spec.parallelism of type int32",
            ("spec", "parallelism"),
        ),
        (
            pod({"ports": [{"containerPort": 80}, {"containerPort": 3000000000}]}),
            "number 3000000000 into Go struct field ContainerPort.spec.template.spec.containers.ports.containerPort of type int32",
            ("ports", 1, "containerPort"),
        ),
        (
            pod({"env": [{"value": "1"}]}, {"env": [{"value": "2"}, {"value": 3}]}),
            "number into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
            ("containers", 1, "env", 1, "value"),
        ),
        (
            pod({"command": ["sh"]}, {"command": "sh"}),
            "string into Go struct field Container.spec.template.spec.containers.command of type []string",
            ("containers", 1, "command"),
        ),
        (
            pod({"command": ["sh"]}, {"command": ["sh", 1]}),
            "number into Go struct field Container.spec.template.spec.containers.command of type string",
            ("containers", 1, "command", 1),
        ),
        (
            pod(nodeSelector={"a": "b", "zone": True}),
            "bool into Go struct field PodSpec.spec.template.spec.nodeSelector of type string",
            ("nodeSelector", "zone"),
        ),
        (
            pod({"name": "c"}, "x"),
            "string into Go struct field PodSpec.spec.template.spec.containers of type v1.Container",
            ("containers", 1),
        ),
        (
            pod({"livenessProbe": {"httpGet": {"port": {}}}}),
            "object into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
            ("containers", 0, "livenessProbe", "httpGet", "port"),
        ),
        (
            pod({"terminationGracePeriodSeconds": 1.5}, terminationGracePeriodSeconds=1.5),
            "number 1.5 into Go struct field PodSpec.spec.template.spec.terminationGracePeriodSeconds of type int64",
            ("terminationGracePeriodSeconds",),
        ),
    ],
)
def test_the_value_is_found_by_path_and_kind(body, reported, place):
    found = decode_problem(body, f"{PREFIX}json: cannot unmarshal {reported}")
    assert found is not None
    assert found.go_type == reported.rpartition(" of type ")[2]
    [where] = found.paths
    assert where[-len(place) :] == place


def test_every_bad_quantity_is_found():
    resources = {"limits": {"cpu": "1x", "memory": "1Gi"}, "requests": {"cpu": {"a": 1}}}
    volumes = [{"emptyDir": {"sizeLimit": "much"}}, {"emptyDir": {"sizeLimit": "1Gi"}}]
    found = decode_problem(pod({"resources": resources}, volumes=volumes, overhead={"cpu": "?"}), PREFIX + QUANTITIES)
    assert found is not None
    assert {where[3:] for where in found.paths} == {
        ("containers", 0, "resources", "limits", "cpu"),
        ("containers", 0, "resources", "requests", "cpu"),
        ("volumes", 0, "emptyDir", "sizeLimit"),
        ("overhead", "cpu"),
    }


@pytest.mark.parametrize(
    "why",
    [
        'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
        "json: cannot unmarshal string into Go struct field JobSpec.spec.gone of type int32",
        "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32",
    ],
)
def test_what_cannot_be_found_has_no_place(why):
    found = decode_problem(pod(), PREFIX + why)
    assert isinstance(found, DecodeProblem)
    assert (found.reason, found.paths) == (why, ())


@pytest.mark.parametrize(
    "message", ["", "the server could not understand the request", 'admission webhook "w" does not support dry run']
)
def test_other_bad_requests_are_not_about_the_object(message):
    assert decode_problem(pod(), message) is None
