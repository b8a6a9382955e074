"""Field errors read exactly as those of the Kubernetes library."""

from typing import Any

import pytest

from kube.model.field import (
    MAX_SHOWN_ERRORS,
    MAX_SHOWN_VALUE,
    SPEC,
    ErrorType,
    FieldError,
    Path,
    Rule,
    Severity,
    aggregate,
    invalid_status,
    quote,
)


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    return FieldError(path, ErrorType.INVALID, value, detail)


def required(path: Path, detail: str = "") -> FieldError:
    return FieldError(path, ErrorType.REQUIRED, None, detail)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (invalid(SPEC.at("network", "subdomain"), "A", "bad"), 'spec.network.subdomain: Invalid value: "A": bad'),
        (invalid(SPEC.at("replicas"), 5, "bad"), "spec.replicas: Invalid value: 5: bad"),
        (invalid(SPEC.at("backoffLimit"), None, "bad"), "spec.backoffLimit: Invalid value: null: bad"),
        (invalid(SPEC.at("a"), [{"b": True}], "bad"), "spec.a: Invalid value: bad"),
        (invalid(SPEC.at("a"), 10**30, ""), "spec.a: Invalid value: 1" + "0" * 30),
        (required(SPEC.at("managedBy")), "spec.managedBy: Required value"),
        (required(SPEC.at("x", 3, "y"), "why"), "spec.x[3].y: Required value: why"),
        (FieldError(SPEC.at("x"), ErrorType.FORBIDDEN, 1, "no"), "spec.x: Forbidden: no"),
        (FieldError(SPEC.at("x"), ErrorType.TOO_LONG, "v", "may not"), "spec.x: Too long: may not"),
        (
            FieldError(SPEC.at("x"), ErrorType.NOT_SUPPORTED, "v", "supported"),
            'spec.x: Unsupported value: "v": supported',
        ),
        (
            FieldError(SPEC.at("x"), ErrorType.INVALID, "v", "bad", "correct it"),
            'spec.x: Invalid value: "v": bad; correct it',
        ),
        (FieldError(SPEC.at("x"), ErrorType.REQUIRED, None, "", "name it"), "spec.x: Required value: name it"),
        (FieldError(SPEC.at("x"), ErrorType.INVALID, "v", verbatim="as is", hint="fix"), "spec.x: as is; fix"),
        (
            invalid(Path(("metadata", "annotations", "a.io/b")), "v", "no"),
            'metadata.annotations[a.io/b]: Invalid value: "v": no',
        ),
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
    assert aggregate(["a"]) == "a"
    assert aggregate(["b", "a", "b"]) == "[b, a]"


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


def test_a_rule_fills_its_words_in_and_user_text_is_never_a_template():
    rule = Rule("some-rule", ErrorType.INVALID, "no '{name}' here", "use {other}", "nowhere", severity=Severity.WARNING)
    error = rule.at(SPEC.at("a"), "{x}", name="{value}{0}", other="y")
    assert (error.body, error.is_warning) == ("Invalid value: \"{x}\": no '{value}{0}' here; use y", True)


def test_a_word_that_takes_long_to_find_is_found_when_it_is_shown():
    asked = []
    rule = Rule("some-rule", ErrorType.INVALID, "no {name}", "use {other}", "nowhere")
    error = rule.at(SPEC, "x", name="x", other=lambda: asked.append(1) or "y" * 1000)
    assert (error.detail, asked) == ("no x", [])
    body = error.body
    assert body.startswith('Invalid value: "x": no x; use yyy')
    assert len(body) < 400
    assert asked == [1]


def test_long_values_texts_and_lists_are_cut_and_the_rest_is_counted():
    long = "x" * 100_000
    assert len(invalid(SPEC, long, "d").body) < MAX_SHOWN_VALUE + 50
    assert len(invalid(SPEC, [long], "d").body) < MAX_SHOWN_VALUE + 50
    rule = Rule("some-rule", ErrorType.INVALID, "no {name}", "", "nowhere")
    assert len(rule.at(SPEC, 1, name=long).body) < 500
    status = invalid_status([required(SPEC.at(i)) for i in range(MAX_SHOWN_ERRORS + 7)], group="g", kind="K", name="n")
    assert status["message"].endswith("and 7 more]")
    assert len(status["details"]["causes"]) == MAX_SHOWN_ERRORS + 1
    assert status["details"]["causes"][-1]["message"] == "and 7 more"


@pytest.mark.parametrize(
    "value", ["\ud800", ["\ud800"], {"a": [10**5000]}, "x" * 10**6], ids=["text", "list", "number", "long"]
)
def test_a_value_that_cannot_be_shown_is_no_fault_of_its_own(value: Any):
    assert len(str(invalid(SPEC, value, "bad"))) < 300
