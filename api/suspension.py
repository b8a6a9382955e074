"""Reads the annotations of a JobSet that change how its Jobs are suspended. Pure.

The feature gate JobSetSuspensionOptions turns these annotations on.

See docs/reference/lifecycle.md#jobs-that-another-controller-suspends.
"""

from api import keys
from api.features import FeatureGates
from api.jobset import JobSet

GATE = "JobSetSuspensionOptions"


def leaves_suspension_to_others(js: JobSet, gates: FeatureGates) -> bool:
    """Whether another controller suspends and resumes the Jobs one by one. This controller then never resumes them."""
    return gates[GATE] and js.metadata.annotations.get(keys.SKIP_SUSPEND) == "true"


def deletes_jobs_on_suspend(js: JobSet, gates: FeatureGates) -> bool:
    """Whether a suspension deletes the Jobs that have started, so that all their pods come back at the resume."""
    return gates[GATE] and js.metadata.annotations.get(keys.DELETE_ON_SUSPEND) == "true"
