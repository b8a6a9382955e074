"""Each finding is at a place that stands in the manifest, and shows no list and no object as its value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.features import FeatureGates
from app.engine import engine
from kube.model.field import ErrorType, FieldError
from tests.support.corpus.manifests import Case, case_id, cases
from tests.support.corpus.mutations import mutated, training
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.default import with_defaults

GATES = (FeatureGates(), FeatureGates({"AllAlpha": True}))
ABSENT = object()
BAD = cases("bad")


def at(obj: Any, parts: tuple[str | int, ...]) -> Any:
    for part in parts:
        try:
            obj = obj[part]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return obj


def nowhere(errors: tuple[FieldError, ...], *objects: JSON) -> list[str]:
    """Findings whose place is in none of the objects; of what is required the parent has to be there."""
    return [
        str(error)
        for error in errors
        if all(
            at(obj, error.path.parts[:-1] if error.type is ErrorType.REQUIRED else error.path.parts) is ABSENT
            for obj in objects
        )
    ]


@pytest.mark.no_cover
@given(mutated(changes=4), st.sampled_from(GATES))
def test_every_place_stands_in_the_manifest(obj: JSON, gates: FeatureGates):
    submitted = with_defaults(obj)[0]
    found = engine(gates).findings_about_new(obj)
    assert nowhere((*found.errors, *found.warnings), submitted) == []


@pytest.mark.no_cover
@given(mutated(changes=4), st.sampled_from(GATES))
def test_every_place_of_a_change_stands_in_the_manifest_or_did_before(obj: JSON, gates: FeatureGates):
    old = with_defaults(training())[0]
    found = engine(gates).findings_about_update(old, obj)
    assert nowhere((*found.errors, *found.warnings), with_defaults(obj, old)[0], old) == []


@pytest.mark.parametrize("case", [case for case in BAD if case.old is None], ids=case_id)
def test_every_place_stands_in_each_manifest_of_the_corpus(case: Case):
    found = engine(FeatureGates(case.gates)).findings_about_new(case.manifest)
    assert nowhere((*found.errors, *found.warnings), with_defaults(case.manifest)[0]) == []


@pytest.mark.no_cover
@given(mutated(changes=4), st.sampled_from(GATES))
def test_no_finding_shows_a_list_or_an_object(obj: JSON, gates: FeatureGates):
    judge = engine(gates)
    for found in (judge.findings_about_new(obj), judge.findings_about_update(with_defaults(training())[0], obj)):
        shown = [str(error) for error in found.errors if str(error).partition(" value: ")[2].startswith(("[", "{"))]
        assert shown == []


def test_what_is_repaired_in_a_container_leaves_no_claim_without_a_mount():
    container = {"name": "main", "image": "busybox", "volumeMounts": "data"}
    claims = [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}]
    found = engine(FeatureGates()).findings_about_new(
        jobset(rjob(pod={"containers": [container]}), volumeClaimPolicies=claims)
    )
    assert [error.rule.id for error in found.errors if error.rule] == ["schema-type"]
