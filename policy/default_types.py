"""Records of the defaults of a policy."""

from collections.abc import Iterator
from typing import Annotated

from api.policies import INT32, INT64
from kube.model.field import ErrorType, FieldError, Path
from kube.model.meta import Base, doc
from kube.model.validation import dns1123_subdomain, label_value
from policy.fields import map_by
from policy.sentences import invalid

MAX_LABELS = 64
NO_DEFAULTS = invalid("defaults", ErrorType.REQUIRED, "", "add a default, or remove the field")
VALUE = invalid("value", ErrorType.INVALID, "{complaint}", "correct it")
TOLERATION = invalid("toleration", ErrorType.FORBIDDEN, "Exists compares with no value", "remove the value")
TOO_MANY = invalid("too-many", ErrorType.TOO_MANY, f"must have at most {MAX_LABELS} labels", "remove some of them")
_TEXTS = {"additionalProperties": {"type": "string", "maxLength": 63}}


class DefaultToleration(Base, frozen=True, kw_only=True):
    """A toleration."""

    key: Annotated[str, doc("Key of the taint.", maxLength=317)]
    operator: Annotated[
        str, doc("How the value is compared. Default Equal (CRD).", enum=["Equal", "Exists"], default="Equal")
    ] = "Equal"
    value: Annotated[str, doc("Value of the taint, for Equal.", maxLength=63)] = ""
    effect: Annotated[
        str, doc("Effect of the taint. Absent: all effects.", enum=["NoSchedule", "PreferNoSchedule", "NoExecute"])
    ] = ""

    def faults(self, path: Path) -> Iterator[FieldError]:
        """Faults of the value for which the API server would refuse a pod."""
        if self.operator == "Exists" and self.value:
            yield TOLERATION.at(path.at("value"))
        for complaint in label_value(self.value):
            yield VALUE.at(path.at("value"), self.value, complaint=complaint)


class Defaults(Base, frozen=True, kw_only=True):
    """What is set in a new JobSet where its author has written nothing."""

    labels: Annotated[
        dict[str, str],
        doc("Labels of the JobSet, such as kueue.x-k8s.io/queue-name with the name of a queue.", **_TEXTS),
    ] = {}
    ttl_seconds_after_finished: Annotated[int | None, doc("spec.ttlSecondsAfterFinished.", minimum=0, **INT32)] = None
    active_deadline_seconds: Annotated[
        int | None,
        doc(
            "spec.activeDeadlineSeconds. Not set without the feature gate JobSetActiveDeadlineSeconds.",
            minimum=1,
            **INT64,
        ),
    ] = None
    priority_class_name: Annotated[str, doc("priorityClassName of pods.", maxLength=253)] = ""
    node_selector: Annotated[
        dict[str, str],
        doc("Labels of nodes that pods select. One that the author selects by, in any way, is left alone.", **_TEXTS),
    ] = {}
    tolerations: Annotated[
        tuple[DefaultToleration, ...],
        map_by("key", "Tolerations of pods. A taint for which the author has written a toleration is left alone."),
    ] = ()

    def faults(self, path: Path) -> Iterator[FieldError]:
        """The fault of empty `defaults`, and faults of values that the API server would refuse."""
        if self == Defaults():
            yield NO_DEFAULTS.at(path)
        for name, labels in (("labels", self.labels), ("nodeSelector", self.node_selector)):
            if len(labels) > MAX_LABELS:
                yield TOO_MANY.at(path.at(name), len(labels))
            for key, value in labels.items():
                yield from (
                    VALUE.at(path.at(name, key), value, complaint=complaint) for complaint in label_value(value)
                )
        for complaint in dns1123_subdomain(self.priority_class_name) if self.priority_class_name else ():
            yield VALUE.at(path.at("priorityClassName"), self.priority_class_name, complaint=complaint)
