"""Whether a new JobSet requests more at once than a ResourceQuota of its namespace allows. A warning.

The API server refuses pods over a quota one by one, and no status shows it. Each ReplicatedJob is compared with the
whole quota, since the use of a quota changes; then ReplicatedJobs that start together, since later ReplicatedJobs may
run when these have ended. Limits, quotas with scopes, and sets whose pods request nothing are not checked. The set is
not refused, since a quota may be changed. Only checks with the user's own rights show the name and the amounts of a
quota: authors of JobSets need not have the right to read quotas.

Remembered: the quotas of a namespace, for 30 s; 256 namespaces at most. If a quota has changed, a warning is out of
date.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from api.stages import is_ordered, stages
from kube.client import Client
from kube.errors import Forbidden
from kube.model.field import ErrorType, FieldError, Path
from kube.model.quantity import with_unit
from kube.model.requests import Amount, Amounts, amounts, exceeding_resources, sum_requests
from kube.resources import RESOURCE_QUOTAS
from policy.judged import JudgedJobSet, Template
from webhooks.jobset.cluster.lookups import Lookups
from webhooks.jobset.cluster.verdict import warning
from webhooks.offload import compute

KEPT_FOR = 30.0
"""Seconds for which the quotas of a namespace are not read again."""
MAX_NAMESPACES = 256
"""The most namespaces whose quotas are remembered."""
MAX_QUOTAS = 16
"""The most quotas of a namespace that are read."""
_PODS = ("pods", "count/pods")
_REQUESTS = "requests."

QUOTA = warning(
    "quota-too-small",
    "needs {amount} of {resource} at once, more than {quota} allows: some pods wait",
    "run fewer pods at once, or have the quota raised (kubectl describe quota)",
    kind=ErrorType.TOO_MANY,
)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    hard: dict[str, Any] | None = None
    scopes: list[Any] | None = None
    scope_selector: Any = None


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""


class Quota(msgspec.Struct, gc=False):
    """A ResourceQuota, the fields that are read."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec | None = None

    @property
    def limits(self) -> Amounts:
        """By resource, the total requests of pods that the quota allows; empty for a quota with scopes."""
        limits: Amounts = {}
        if self.spec is not None and not self.spec.scopes and not self.spec.scope_selector:
            for key, amount in amounts(self.spec.hard).items():
                if _is_of_pods(key):
                    limits[_resource(key)] = min(amount, limits.get(_resource(key), amount))
        return limits


def _is_of_pods(key: str) -> bool:
    """Whether this key of a quota limits pods or their requests."""
    return key in {*_PODS, "cpu", "memory"} or key.startswith(_REQUESTS)


def _resource(key: str) -> str:
    return "pods" if key in _PODS else key.removeprefix(_REQUESTS)


def requests_anything(judged: JudgedJobSet) -> bool:
    """Whether pods of a JobSet request resources. If not, neither quotas nor nodes are read."""
    return any(template.jobs and template.requests for template in judged.templates)


Allowed = dict[str, tuple[Amount, str]]
"""By resource, the lowest limit of all quotas, and the name of the quota that has it."""


def strictest_limits(quotas: Sequence[Quota]) -> Allowed:
    allowed: Allowed = {}
    for quota in quotas:
        for name, amount in quota.limits.items():
            allowed[name] = min((amount, quota.metadata.name), allowed.get(name, (amount, quota.metadata.name)))
    return allowed


def quota_warnings(judged: JudgedJobSet, allowed: Allowed, *, shows_quota: bool) -> Iterator[FieldError]:
    """Warnings where pods request more than quotas allow; of several resources the first by name.

    `shows_quota`: whether a warning has the quota's name and amount.
    """
    return alone_or_together(
        judged, lambda path, templates: _warning(path, templates, allowed, shows_quota=shows_quota)
    )


def alone_or_together(
    judged: JudgedJobSet, find: Callable[[Path, Sequence[Template]], FieldError | None]
) -> Iterator[FieldError]:
    """The findings of `find` about each ReplicatedJob; if it finds nothing, about ReplicatedJobs that start together.

    `find` gets the path and the templates of the pods that run at once.
    """
    alone = [(template.path, (template,)) for template in judged.templates]
    together = [(Path(("spec", "replicatedJobs")), templates) for templates in _starting_together(judged)]
    for groups in (alone, together):
        findings = [find(path, templates) for path, templates in groups]
        if any(findings):
            yield from filter(None, findings)
            return


def _starting_together(judged: JudgedJobSet) -> Iterator[tuple[Template, ...]]:
    """Groups of ReplicatedJobs that start at once: each stage, or without stages all that depend on no other."""
    spec = judged.js.spec
    unstarted = iter(judged.templates)
    for stage in stages(spec):
        yield tuple(islice(unstarted, len(stage)))
    if not is_ordered(spec):
        yield tuple(template for template in unstarted if not template.rjob.depends_on)


def _warning(path: Path, templates: Sequence[Template], allowed: Allowed, *, shows_quota: bool) -> FieldError | None:
    needed = total_requests(templates)
    resource = min(exceeding_resources(needed, {name: limit for name, (limit, _) in allowed.items()}), default="")
    if not resource:
        return None
    unit = "Gi" if resource == "memory" else ""
    limit, quota = allowed[resource]
    return QUOTA.at(
        path,
        None,
        amount=with_unit(needed[resource], unit),
        resource=resource,
        quota=f"the {with_unit(limit, unit)} that quota {quota}" if shows_quota else "a quota",
    )


def total_requests(templates: Sequence[Template]) -> Amounts:
    """The sum of the requests of all pods of the templates, and the number of these pods as the resource `pods`."""
    pods = sum(template.pods for template in templates)
    return {"pods": pods, **sum_requests((template.requests, template.pods) for template in templates)}


class Quotas:
    """Reads the quotas of namespaces and remembers their limits. One instance for a process."""

    def __init__(self, budget: float, *, own_rights: bool) -> None:
        """`budget`: seconds for one request. `own_rights`: the client has the rights of the JobSets' author."""
        self._budget = budget
        self._own_rights = own_rights
        self._allowed: Lookups[str, Allowed] = Lookups(MAX_NAMESPACES)

    async def too_small(self, judged: JudgedJobSet, client: Client) -> list[FieldError]:
        """Warnings about a new JobSet; empty without the right to read quotas. Raises without an answer."""
        namespace = judged.js.metadata.namespace
        allowed = await self._allowed.get(namespace, lambda: self._read(namespace, client), lambda _: KEPT_FOR)
        if not allowed:
            return []
        return await compute(lambda: list(quota_warnings(judged, allowed, shows_quota=self._own_rights)))

    async def _read(self, namespace: str, client: Client) -> Allowed:
        try:
            page = await client.list(
                RESOURCE_QUOTAS, type=Quota, namespace=namespace, limit=MAX_QUOTAS, timeout=self._budget
            )
        except Forbidden:
            return {}
        return strictest_limits(page.items or ())
