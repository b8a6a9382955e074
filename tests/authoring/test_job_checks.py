"""What `jobset validate` says about child Jobs without a cluster: where, once, and never wrongly."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.features import FeatureGates
from authoring.checks import Checks
from authoring.job_checks import UNUSED_TEMPLATE
from kube.model.jsontree import dig
from tests.support.corpus.job_answers import recorded
from tests.support.corpus.job_mistakes import CASES
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.engine import Findings

ANSWERS = recorded()
JUNK: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], ["x"], [None], [[]], {}, {"x": "y"}, [{}], {"name": 5}]


def found(*rjobs: JSON, **spec: Any) -> Findings:
    checks = Checks(FeatureGates(), "default")
    return checks.findings_about_new(checks.prepare(jobset(*copy.deepcopy(rjobs), **spec)))


@pytest.mark.parametrize("name", CASES)
def test_what_the_api_server_refuses_is_refused_at_a_place_of_the_manifest(name: str):
    errors = found(CASES[name]).errors
    assert bool(errors) == bool(ANSWERS[name]), errors
    raw = jobset(CASES[name])
    for error in errors:
        # What is missing is reported where it belongs, as the API server does it.
        assert dig(raw, *error.path.parts[:-2]) is not None, error.path
        assert not isinstance(error.value, dict | list) or "{" not in str(error), "no object is shown"


def test_all_that_share_a_template_are_named_and_those_without_jobs_are_not():
    bad = CASES["image-empty"]
    errors = found(bad, {**bad, "name": "b"}, {**bad, "name": "c", "replicas": 0}).errors
    assert [error.path.parts[2] for error in errors] == [0, 1]


@pytest.mark.parametrize("children", [True, False])
def test_templates_without_replicas_get_warnings_of_what_is_refused_later(children: bool):
    checks = Checks(FeatureGates(), "default")
    sent = checks.prepare(jobset({**CASES["image-empty"], "replicas": 0}, rjob("b")))
    findings = checks.findings_about_new(sent, children=children)
    assert findings.errors == ()
    (warned,) = (error for error in findings.warnings if error.rule is UNUSED_TEMPLATE)
    assert str(warned.path).startswith("spec.replicatedJobs[0].template.")
    assert warned.reader_text.endswith(
        "with more replicas than 0 the API server refuses it: Required value; name the image to run"
    )


def test_as_many_failed_indexes_as_allowed_are_no_mistake():
    job = {"backoffLimitPerIndex": 1, "maxFailedIndexes": 100_000}
    assert not found(rjob(parallelism=1, completions=100_000, job=job)).errors


def test_jobs_of_another_controller_are_left_to_it():
    assert found(CASES["image-empty"], managedBy="example.com/other").errors == ()


def holders(value: Any) -> list[Any]:
    """Every object and list in a value, itself included, that has members."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inside = [holder for member in members for holder in holders(member)]
    return [value, *inside] if isinstance(value, dict | list) and value else inside


@given(st.sampled_from(sorted(CASES)), st.data())
def test_no_template_makes_it_raise(name: str, data: st.DataObject):
    template = copy.deepcopy(CASES[name])
    for _ in range(data.draw(st.integers(1, 3))):
        holder = data.draw(st.sampled_from(holders(template)))
        keys = sorted(holder) if isinstance(holder, dict) else list(range(len(holder)))
        holder[data.draw(st.sampled_from(keys))] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    for error in found(template).errors:
        assert error.complaint
