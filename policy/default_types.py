"""What a policy sets in new JobSets that leave it out, as records."""

from typing import Annotated

from api.policies import INT32, INT64
from kube.model.meta import Base, doc
from policy.rule_types import MOST_ITEMS

_TEXTS = {"additionalProperties": {"type": "string", "maxLength": 63}}


class DefaultToleration(Base, frozen=True, kw_only=True):
    """A toleration."""

    key: Annotated[str, doc("Key of the taint.", maxLength=317)]
    operator: Annotated[
        str, doc("How the value is compared. Default Equal (CRD).", enum=["Equal", "Exists"], default="Equal")
    ] = "Equal"
    value: Annotated[str, doc("Value of the taint, for Equal.", maxLength=63)] = ""
    effect: Annotated[
        str,
        doc("Effect of the taint. Absent: all effects.", enum=["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ] = ""


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
        doc(
            "Tolerations of pods. A taint for which the author has written a toleration is left alone.",
            maxItems=MOST_ITEMS,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
        ),
    ] = ()
