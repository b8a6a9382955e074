"""The resources that a simulated cluster may serve."""

from controllers.resources import JOBSETS
from kube import resources
from kube.resources import Resource

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
GROUPS = (resources.WORKLOADS, resources.POD_GROUPS, resources.COMPOSITE_POD_GROUPS)
"""Resources that are served with feature gates only."""

_OTHERS = (JOBSETS, NAMESPACES, Resource("", "v1", "Event", "events"))
ALL = {(r.api_version, r.plural): r for r in (*vars(resources).values(), *_OTHERS) if isinstance(r, Resource)}
"""By apiVersion and plural name."""

BY_KIND = {(r.api_version, r.kind): r for r in ALL.values()}
"""By apiVersion and kind, as owner references name them."""
