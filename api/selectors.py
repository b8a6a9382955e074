"""Builds label selectors for lists and watches, from valid label values. Pure."""

from collections.abc import Sequence

from api import keys
from api.jobset import JobSet

MAX_UIDS = 50
"""At most this many UIDs should be in a selector, since it is in the URL of the request."""


def one_of(key: str, values: Sequence[str]) -> str:
    """The selector of objects whose label `key` has one of these values."""
    return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})"


def other_attempts_selector(js: JobSet) -> str:
    """The selector of the Jobs and pods of earlier attempts of a JobSet. Each restart begins a new attempt."""
    return f"{keys.JOBSET_UID}={js.metadata.uid},{keys.RESTART_ATTEMPT} notin ({js.status.restarts})"
