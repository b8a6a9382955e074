"""Records of the status of policies and of exceptions. The CRDs are generated from them, as from those of types.py."""

from typing import Annotated, Any, Final

from api.policies import ATOMIC, INT64, MAP_BY_NAME
from kube.model.meta import Base, Condition, doc

MAP_BY_TYPE: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}

_TIME: dict[str, Any] = {"format": "date-time", "maxLength": 40}
_COUNT: dict[str, Any] = {"minimum": 0, **INT64}
MAX_RULES = 64
"""A status has counts of at most this many rules, which is more than any version has."""
MAX_SHOWN = 20
"""A status lists at most this many violations by stored JobSets."""
API_SERVER: Final = "APIServer"
ANYONE: Final = "Anyone"
REVIEWS_FROM: Final = [API_SERVER, ANYONE]
FORGEABLE: Final = "whoever reaches the webhooks may have sent the review: tls.clientCAFile is not set"
"""The warning about a status that was changed by a review from `ANYONE`."""


class Counts(Base, frozen=True, kw_only=True):
    """How often something happened, since the policy was created."""

    denied: Annotated[int, doc("Times that a violation was refused.", **_COUNT)] = 0
    warned: Annotated[int, doc("Times that the author was warned.", **_COUNT)] = 0
    audited: Annotated[int, doc("Times that a violation was recorded in the audit log.", **_COUNT)] = 0
    excepted: Annotated[int, doc("Times that a JobSetPolicyException allowed a violation.", **_COUNT)] = 0
    failed: Annotated[int, doc("Times that a rule could not be checked.", **_COUNT)] = 0
    last_seen: Annotated[str | None, doc("When the last of these happened.", **_TIME)] = None


class RuleCounts(Counts, frozen=True, kw_only=True):
    """Counts of one rule. Each review counts once."""

    name: Annotated[str, doc("Name of the rule; `defaults` for the defaults, `match` for the selectors.", maxLength=63)]


class AuditedViolation(Base, frozen=True, kw_only=True):
    """One rule that a stored JobSet breaks."""

    namespace: Annotated[str, doc("Namespace of the JobSet.", maxLength=63)]
    name: Annotated[str, doc("Name of the JobSet.", maxLength=253)]
    rule: Annotated[str, doc("Name of the rule.", maxLength=63)]
    message: Annotated[str, doc("What the rule says, cut when it is long.", maxLength=1024)] = ""


class PolicyAudit(Base, frozen=True, kw_only=True):
    """Violations of the policy by stored JobSets, whatever its validationActions."""

    time: Annotated[str, doc("When the JobSets were checked.", **_TIME)]
    jobsets: Annotated[int, doc("JobSets that the policy applies to.", **_COUNT)] = 0
    violations: Annotated[int, doc("Rules that they break: each once for each JobSet.", **_COUNT)] = 0
    unchecked: Annotated[int, doc("Rules that could not be checked, counted in the same way.", **_COUNT)] = 0
    first: Annotated[
        tuple[AuditedViolation, ...],
        doc("The first violations by namespace and name.", maxItems=MAX_SHOWN, **ATOMIC),
    ] = ()


class JobSetPolicyStatus(Counts, frozen=True, kw_only=True):
    """Whether the policy is in force, and what it has decided. Its own counts are the sums over all rules."""

    observed_generation: Annotated[
        int, doc("Generation of the policy that the conditions are about.", minimum=0, **INT64)
    ] = 0
    conditions: Annotated[
        tuple[Condition, ...],
        doc(
            "Ready: whether the policy is in force without faults. Conflicting: whether its defaults and other policies"
            " contradict each other. InAPIServer: whether the API server holds it by itself, if it is to.",
            maxItems=8,
            **MAP_BY_TYPE,
        ),
    ] = ()
    reviews_from: Annotated[
        str | None,
        doc(
            "Who has sent the reviews that are counted. APIServer: all showed a certificate of tls.clientCAFile."
            " Anyone: some came while the webhooks answered whoever reached them, so the counts can be forged.",
            enum=REVIEWS_FROM,
        ),
    ] = None
    matched: Annotated[int, doc("Reviews of JobSets that the policy applies to.", **_COUNT)] = 0
    defaulted: Annotated[int, doc("New JobSets that got defaults.", **_COUNT)] = 0
    rules: Annotated[
        tuple[RuleCounts, ...],
        doc("Counts of each rule that has decided something.", maxItems=MAX_RULES, **MAP_BY_NAME),
    ] = ()
    audit: Annotated[
        PolicyAudit | None, doc("Violations of the policy by stored JobSets. Absent: they have not been checked yet.")
    ] = None


class JobSetPolicyExceptionStatus(Base, frozen=True, kw_only=True):
    """Whether the exception counts, and whether it was ever needed."""

    conditions: Annotated[
        tuple[Condition, ...],
        doc(
            "InForce: whether the exception counts, and why not. Used: whether a JobSet was ever admitted because of"
            " it.",
            maxItems=8,
            **MAP_BY_TYPE,
        ),
    ] = ()
    until: Annotated[str | None, doc("When the exception ends, by expiresAt and by the policy.", **_TIME)] = None
    first_used: Annotated[str | None, doc("When a JobSet was first admitted because of it.", **_TIME)] = None
    reviews_from: Annotated[
        str | None,
        doc(
            "Who has sent the review that firstUsed is about, as in the status of policies. A review by the API server"
            " replaces one by anyone.",
            enum=REVIEWS_FROM,
        ),
    ] = None
