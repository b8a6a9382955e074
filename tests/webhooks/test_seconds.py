"""A time such as 1d in a field of seconds: the answer says how many that is, in a JobSet as in a policy."""

import pytest

from app.engine import crd_schema
from tests.support.objects.jobsets import jobset
from webhooks.jobset.schema.schema import Schema

SCHEMA = Schema(crd_schema())


@pytest.mark.parametrize(
    ("value", "how"),
    [
        ("1d", "write 86400 for 1d"),
        ("90m", "write 5400 for 90m"),
        ("soon", "write a whole number"),
        ("60", "write 60 without quotes"),
    ],
)
def test_a_time_is_said_in_seconds(value: str, how: str):
    (error,) = SCHEMA.faults(jobset(ttlSecondsAfterFinished=value))
    assert error.fix == how
