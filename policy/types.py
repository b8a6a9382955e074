"""Records of JobSetPolicy, a cluster-scoped kind of `policy.jobset.x-k8s.io/v1alpha1`.

As in api/jobset.py the records are the one source of the fields. The decoder reads policies into them, and `make
generate` turns their descriptions and keywords into the CRD. policy/faults.py finds faults that a schema cannot
express.
"""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from api.policies import ATOMIC, SET
from kube.model.field import ErrorType, FieldError, Path
from kube.model.meta import Base, ObjectMeta, doc
from policy.default_types import MAX_LABELS, TOO_MANY, Defaults
from policy.fields import DURATION
from policy.kinds import PolicyId
from policy.registry import Rules
from policy.sentences import invalid
from policy.status_types import JobSetPolicyStatus

DENY: Final = "Deny"
WARN: Final = "Warn"
AUDIT: Final = "Audit"
ENFORCE: Final = "Enforce"
FAIL: Final = "Fail"
IGNORE: Final = "Ignore"

AUDIT_KEY: Final = "policy-violations"
"""Key of the audit annotation. The API server writes `vjobset.kb.io/policy-violations`."""
MAX_AUDITED_TEXT = 400
"""At most this many characters of the text of one violation are in the annotation."""

MISSING_VALUES = invalid("values", ErrorType.REQUIRED, "{operator} compares with values", "name at least one")
UNNECESSARY_VALUES = invalid("no-values", ErrorType.FORBIDDEN, "{operator} compares with no value", "remove the values")


class Requirement(Base, frozen=True, kw_only=True):
    """One requirement of a label selector."""

    key: Annotated[str, doc("Key of the label.", maxLength=317)]
    operator: Annotated[
        str, doc("How the label is compared with the values.", enum=["In", "NotIn", "Exists", "DoesNotExist"])
    ]
    values: Annotated[
        tuple[Annotated[str, doc("A value.", maxLength=63)], ...],
        doc("Values for In and NotIn; none for Exists and DoesNotExist.", maxItems=64, **ATOMIC),
    ] = ()

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether these labels meet the requirement, as the API server decides it."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        return (labels.get(self.key) in self.values) == (self.operator == "In")

    def faults(self, path: Path) -> Iterator[FieldError]:
        """The fault of an operator without the values that it needs, or with values that it does not take."""
        if self.operator in {"In", "NotIn"} and not self.values:
            yield MISSING_VALUES.at(path.at("values"), operator=self.operator)
        elif self.operator in {"Exists", "DoesNotExist"} and self.values:
            yield UNNECESSARY_VALUES.at(path.at("values"), operator=self.operator)

    def __str__(self) -> str:
        """The requirement in the syntax of `kubectl get -l`."""
        if self.operator == "In" and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        if self.operator in {"In", "NotIn"}:
            return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
        return self.key if self.operator == "Exists" else f"!{self.key}"


class Selector(Base, frozen=True, kw_only=True):
    """A label selector (metav1.LabelSelector). Empty: everything matches."""

    match_labels: Annotated[
        dict[str, str],
        doc(
            "Labels that must be there with these values.",
            additionalProperties={"type": "string", "maxLength": 63},
            **{"x-kubernetes-map-type": "atomic"},
        ),
    ] = {}
    match_expressions: Annotated[
        tuple[Requirement, ...], doc("Requirements that must all be met.", maxItems=16, **ATOMIC)
    ] = ()

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return self.unmet(labels) is None

    def faults(self, path: Path) -> Iterator[FieldError]:
        """The fault of a selector with too many labels."""
        if len(self.match_labels) > MAX_LABELS:
            yield TOO_MANY.at(path.at("matchLabels"), len(self.match_labels))

    def unmet(self, labels: dict[str, str]) -> Requirement | None:
        """The first requirement that these labels do not meet; None if the object is selected."""
        pairs = (Requirement(key=key, operator="In", values=(value,)) for key, value in self.match_labels.items())
        return next((item for item in (*pairs, *self.match_expressions) if not item.matches(labels)), None)


class Match(Base, frozen=True, kw_only=True):
    """The JobSets that a policy is about: those for which both selectors match."""

    namespace_selector: Annotated[Selector, doc("By the labels of the namespace. Absent: every namespace.")] = (
        Selector()
    )
    object_selector: Annotated[
        Selector,
        doc("By the labels of the JobSet, which its author chooses: no means of exempting sets. Absent: every JobSet."),
    ] = Selector()


class Exceptions(Base, frozen=True, kw_only=True):
    """Where, and for how long, exceptions from a policy count."""

    allowed_namespaces: Annotated[
        Selector,
        doc("Namespaces whose JobSetPolicyExceptions count, by their labels. {}: all.", **{"x-required": True}),
    ] = Selector()
    max_duration: Annotated[
        str,
        doc(
            "For how long an exception counts after it was created, such as 12h or 30d.",
            pattern=DURATION,
            maxLength=7,
            example="7d",
        ),
    ]


class JobSetPolicySpec(Base, frozen=True, kw_only=True):
    """What is demanded of which JobSets, what happens to one that does not meet it, and what new ones get."""

    match: Annotated[Match, doc("The JobSets that the policy is about. Absent: all.")] = Match()
    validation_actions: Annotated[
        tuple[Annotated[str, doc("An action.", enum=[DENY, WARN, AUDIT])], ...],
        doc(
            "What a violation leads to, as in ValidatingAdmissionPolicy. Deny: the JobSet is refused. Warn: its author"
            " gets a warning. Audit: it is recorded. Deny and Warn exclude each other. Default [Warn] (CRD).",
            default=[WARN],
            maxItems=2,
            **SET,
        ),
    ] = (WARN,)
    failure_policy: Annotated[
        str,
        doc(
            "What becomes of a JobSet if a rule cannot be checked: because of a bug, or because the namespace cannot be"
            " read. Fail: with Deny it is refused, with Warn its author is warned. Ignore: it is admitted with a"
            " warning. Default Fail (CRD).",
            default=FAIL,
            enum=[FAIL, IGNORE],
        ),
    ] = FAIL
    rules: Annotated[Rules, doc("What is demanded. At least one rule, unless there are defaults.")] = Rules()
    defaults: Annotated[
        Defaults | None,
        doc("What is set in a new JobSet where its author has written nothing. Nothing is overwritten."),
    ] = None
    api_server: Annotated[
        str,
        doc(
            "Enforce: the manager keeps the defaults, and the rules if they deny, in admission policies of the API"
            " server, which hold while the manager is down. Absent: only the manager's webhooks apply them.",
            enum=[ENFORCE],
        ),
    ] = ""
    exceptions: Annotated[
        Exceptions | None, doc("Where JobSetPolicyExceptions from this policy count. Absent: nowhere.")
    ] = None

    @property
    def denies(self) -> bool:
        """Whether a JobSet that breaks a rule is refused."""
        return DENY in self.validation_actions

    @property
    def warns(self) -> bool:
        """Whether the author of a JobSet that breaks a rule gets a warning."""
        return WARN in self.validation_actions

    @property
    def is_enforced_by_api_server(self) -> bool:
        """Whether the API server has to enforce the policy, too, by its own admission policies."""
        return self.api_server == ENFORCE

    @property
    def audits(self) -> bool:
        """Whether a violation is recorded in the audit log."""
        return AUDIT in self.validation_actions


class JobSetPolicy(Base, frozen=True, kw_only=True):
    """What a platform team demands of JobSets. Several policies add up: a JobSet has to meet all that match it."""

    metadata: ObjectMeta
    spec: Annotated[JobSetPolicySpec, doc("What is demanded.")]

    @property
    def id(self) -> PolicyId:
        """The identity of the policy, by which decisions are counted."""
        return PolicyId(self.metadata.name, self.metadata.uid)


class JobSetPolicyObject(JobSetPolicy, frozen=True, kw_only=True):
    """What a platform team demands of JobSets. Several policies add up: a JobSet has to meet all that match it."""

    # Separate from the record that admission reads: an invalid status must not affect the policy.
    status: Annotated[JobSetPolicyStatus, doc("What became of it, as the manager writes it.")] = JobSetPolicyStatus()


def read_policy(obj: object) -> JobSetPolicy:
    """The policy in a JSON object. Raises msgspec.ValidationError for an object that the schema refuses."""
    return msgspec.convert(obj, JobSetPolicy, strict=False)
