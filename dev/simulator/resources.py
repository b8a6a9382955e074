"""The resources that a simulated cluster may serve."""

from controllers.resources import JOBSETS
from kube import resources
from kube.resources import Resource

_EXTRA = (JOBSETS, Resource("", "v1", "Event", "events"))
ALL = {(r.api_version, r.plural): r for r in (*vars(resources).values(), *_EXTRA) if isinstance(r, Resource)}
"""By apiVersion and plural name."""
