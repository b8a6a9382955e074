"""How many Jobs a ReplicatedJob may have, and when a set runs with fewer. See docs/concepts/elastic.md."""

from typing import Annotated, Final

from kube.model.meta import Base, doc

GATE: Final = "JobSetElasticReplicas"


class Elastic(Base, frozen=True, kw_only=True):
    """Bounds of the number of Jobs of a ReplicatedJob. Not in the Go JobSet."""

    min: Annotated[int, doc("The fewest Jobs with which its program can work.", minimum=1, format="int32")]
    max: Annotated[int, doc("The most Jobs that `replicas` may ask for.", minimum=1, format="int32")]
