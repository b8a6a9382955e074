"""Kinds of scheduling.k8s.io that spec.scheduling needs and the API server does not serve. Warnings.

The warning names the flags that enable a missing kind. The set is not refused, since the kind may be enabled later and
the controller waits for it.

Remembered: the kinds of `scheduling.k8s.io` that the API server serves, for 60 s, so that many sets at once cost a few
requests. If a kind has changed, a warning is out of date.
"""

from api.gang_api import PROBE, PROBE_NAMESPACE, UNKNOWN, Served, keeps_topology, missing_api
from api.gangs import forest_of_single_jobs
from api.jobset import JobSet
from kube.client import Client
from kube.errors import ApiError
from kube.model.field import FieldError
from kube.model.meta import JSON
from kube.resources import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS
from webhooks.jobset.cluster.lookups import Lookups
from webhooks.jobset.cluster.verdict import warning
from webhooks.jobset.rules.scheduling import SCHEDULING

CACHE_SECONDS = 60.0
"""Seconds for which an answer is cached."""

NOT_SERVED = warning(
    "scheduling-not-served",
    "{text}",
    source="Kubernetes 1.37: feature gates",
)


class SchedulingApi:
    """The kinds of scheduling.k8s.io that the API server serves. One instance for a process."""

    def __init__(self) -> None:
        self._served: Lookups[None, Served] = Lookups(1)

    async def warnings(self, js: JobSet, client: Client) -> list[FieldError]:
        """Warnings about kinds that the set's groups need and the API server lacks. Raises without an answer."""
        forest = forest_of_single_jobs(js)
        if forest is None:
            return []
        served = await self._served.get(None, lambda: _served_kinds(client), lambda _: CACHE_SECONDS)
        shortfall = missing_api(forest, served)
        if shortfall is None or shortfall is UNKNOWN:
            return []
        texts = [f"{shortfall.problem}: Jobs may have to wait"]
        if shortfall.gates:
            texts.append(f"needs --feature-gates={shortfall.gates}")
        if shortfall.versions:
            texts.append(f"and kube-apiserver --runtime-config={shortfall.runtime_config}")
        return [NOT_SERVED.at(SCHEDULING, text=text) for text in texts]


async def _served_kinds(client: Client) -> Served:
    groups = {WORKLOADS.plural, POD_GROUPS.plural} <= await client.served_resources(POD_GROUPS.api_version)
    composites = COMPOSITE_POD_GROUPS.plural in await client.served_resources(COMPOSITE_POD_GROUPS.api_version)
    topology = composites or (await _keeps_topology(client) if groups else False)
    version = None if groups else await client.server_version()
    return Served(groups=groups, composites=groups and composites, topology=topology, version=version)


async def _keeps_topology(client: Client) -> bool | None:
    """Whether the API server keeps the topology of a PodGroup; None if it refuses the dry run."""
    try:
        stored: JSON = await client.create(POD_GROUPS, PROBE, namespace=PROBE_NAMESPACE, dry_run=True)
    except ApiError:
        return None
    return keeps_topology(stored)
