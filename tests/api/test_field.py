"""Field errors read exactly as those of the Kubernetes library."""

import pytest

from api.field import (
    SPEC,
    ErrorType,
    FieldError,
    aggregate,
    forbidden,
    invalid,
    invalid_status,
    quote,
    required,
    too_long,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (invalid(SPEC.at("network", "subdomain"), "A", "bad"), 'spec.network.subdomain: Invalid value: "A": bad'),
        (invalid(SPEC.at("replicas"), 5, "bad"), "spec.replicas: Invalid value: 5: bad"),
        (invalid(SPEC.at("backoffLimit"), None, "bad"), "spec.backoffLimit: Invalid value: null: bad"),
        (invalid(SPEC.at("a"), [{"b": True}], "bad"), 'spec.a: Invalid value: [{"b":true}]: bad'),
        (invalid(SPEC.at("a"), 10**30, ""), "spec.a: Invalid value: 1" + "0" * 30),
        (required(SPEC.at("managedBy")), "spec.managedBy: Required value"),
        (required(SPEC.at("x", 3, "y"), "why"), "spec.x[3].y: Required value: why"),
        (forbidden(SPEC.at("x"), "no"), "spec.x: Forbidden: no"),
        (too_long(SPEC.at("managedBy"), 63), "spec.managedBy: Too long: may not be more than 63 bytes"),
        (FieldError(SPEC, ErrorType.INTERNAL, "v", "boom"), "spec: Internal error: boom"),
        (FieldError(SPEC, ErrorType.TYPE_INVALID, 1, "Expected"), "spec: Invalid value: 1: Expected"),
    ],
)
def test_text(error: FieldError, text: str):
    assert str(error) == text


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('say "hi"\\', r'"say \"hi\"\\"'),
        ("a\nb\tc\x00\x7f", r'"a\nb\tc\x00\x7f"'),
        ("é世", '"é世"'),
        ("\u200b\U000e0001", r'"\u200b\U000e0001"'),
    ],
)
def test_quoting_is_that_of_go(text: str, quoted: str):
    assert quote(text) == quoted


def test_one_error_stands_alone_and_several_are_bracketed_without_repeats():
    one, two = required(SPEC.at("a")), required(SPEC.at("b"))
    assert aggregate([one]) == "spec.a: Required value"
    assert aggregate([two, one, two]) == "[spec.b: Required value, spec.a: Required value]"


def test_status_keeps_a_cause_for_every_error_even_a_repeated_one():
    error = invalid(SPEC.at("managedBy"), "x", "bad")
    status = invalid_status([error, error], group="jobset.x-k8s.io", kind="JobSet", name="train")
    assert status["message"] == 'JobSet.jobset.x-k8s.io "train" is invalid: spec.managedBy: Invalid value: "x": bad'
    cause = {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": bad', "field": "spec.managedBy"}
    assert status["details"] == {
        "name": "train",
        "group": "jobset.x-k8s.io",
        "kind": "JobSet",
        "causes": [cause, cause],
    }
    assert (status["status"], status["reason"], status["code"]) == ("Failure", "Invalid", 422)


def test_pointer_escapes_what_json_pointer_escapes():
    assert SPEC.at("a/b~c", 0).pointer == "/spec/a~1b~0c/0"
