"""Misspelt fields, spelled as they were meant."""

import pytest
from hypothesis import given

from api.features import FeatureGates
from app.engine import engine
from tests.support.corpus.mutations import mutated
from tests.support.objects.jobsets import jobset, rjob
from webhooks.jobset.schema.unknown import MAX_UNKNOWN

JUDGE = engine(FeatureGates()).schema


@pytest.mark.parametrize(
    ("obj", "meant"),
    [
        (jobset(sucessPolicy={"operators": "All"}), {"sucessPolicy": "successPolicy", "operators": "operator"}),
        (jobset(sucessPolicy=[]), {}),  # no value of that type
        (jobset(suspnd=True, suspend=False), {}),  # the right one is there
        (jobset(suspnd=True, supend=False), {"suspnd": "suspend"}),
        (jobset(maxRestarts=3), {}),  # it belongs elsewhere
    ],
)
def test_a_misspelt_field_gets_the_name_that_was_meant(obj, meant):
    respelt, found = JUDGE.with_right_names(obj)
    assert {error.path.parts[-1]: name for error, name in found} == meant
    assert len(JUDGE.unknown_fields(respelt)) == len(JUDGE.unknown_fields(obj)) - (1 if meant else 0)


def test_of_a_flood_only_the_first_are_looked_at():
    flood = [{f"imag{i}": "x", "imag": "y"} for i in range(10 * MAX_UNKNOWN)]
    respelt, found = JUDGE.with_right_names(jobset(rjob(pod={"containers": flood})))
    assert 0 < len(found) <= MAX_UNKNOWN
    assert respelt["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][-1] == flood[-1]


@pytest.mark.no_cover
@given(mutated(changes=4))
def test_what_is_spelled_right_stays(obj):
    respelt, found = JUDGE.with_right_names(obj)
    assert found or respelt == obj
