"""Records of JobSetPolicyException, by which rules of a policy do not count for JobSets of a namespace for a time."""

from typing import Annotated

import msgspec

from api.policies import SET
from kube.model.meta import Base, ObjectMeta, doc
from policy.registry import Rules
from policy.status_types import JobSetPolicyExceptionStatus
from policy.types import Selector

MAX_NAMES = 64
TIME_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(Z|[+-]\d{2}:\d{2})$"
"""A time with a time zone (RFC 3339), in whole seconds."""
TIME_EXAMPLE = "2030-01-31T12:00:00Z"

RULE_NAMES = tuple(field.encode_name for field in msgspec.structs.fields(Rules))


class ExceptionMatch(Base, frozen=True, kw_only=True):
    """The JobSets of the namespace that an exception is about: those that meet both."""

    names: Annotated[
        tuple[Annotated[str, doc("A name.", maxLength=253)], ...] | None,
        doc("Names of JobSets. Absent: every name.", maxItems=MAX_NAMES, **SET),
    ] = None
    object_selector: Annotated[
        Selector, doc("By the labels of the JobSet, which its author chooses. Absent: every JobSet.")
    ] = Selector()


class JobSetPolicyExceptionSpec(Base, frozen=True, kw_only=True):
    """Which rules do not count, for which JobSets, why, and until when."""

    policy: Annotated[str, doc("Name of the JobSetPolicy.", maxLength=253)]
    rules: Annotated[
        tuple[Annotated[str, doc("Name of a rule, such as maxTotals.", enum=list(RULE_NAMES))], ...],
        doc("Rules of the policy that do not count.", maxItems=len(RULE_NAMES), **SET),
    ]
    match: Annotated[ExceptionMatch, doc("The JobSets that the exception is about. Absent: all of the namespace.")] = (
        ExceptionMatch()
    )
    reason: Annotated[
        str,
        doc(
            "Why the exception was granted.",
            minLength=1,
            maxLength=1024,
            example="final run before the deadline, agreed with the platform team",
        ),
    ]
    expires_at: Annotated[
        str,
        doc(
            "When the exception ends, such as 2030-01-31T12:00:00Z. It ends earlier if the policy allows less time.",
            pattern=TIME_PATTERN,
            maxLength=25,
            example=TIME_EXAMPLE,
        ),
    ]


class JobSetPolicyException(Base, frozen=True, kw_only=True):
    """An exception from a JobSetPolicy. It counts only if the policy allows exceptions in this namespace."""

    metadata: ObjectMeta
    spec: Annotated[JobSetPolicyExceptionSpec, doc("What the exception is.")]
    status: Annotated[JobSetPolicyExceptionStatus, doc("What became of it, as the manager writes it.")] = (
        JobSetPolicyExceptionStatus()
    )


def read_exception(obj: object) -> JobSetPolicyException:
    """The exception in a JSON object. Raises msgspec.ValidationError for an object that the schema refuses."""
    return msgspec.convert(obj, JobSetPolicyException, strict=False)
