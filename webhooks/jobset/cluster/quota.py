"""Whether a new JobSet requests more at once than a ResourceQuota of its namespace allows. A warning.

The API server refuses pods over a quota one by one, and no status shows it. Each ReplicatedJob is compared with the
whole quota, since the use of a quota changes. If each fits, the ReplicatedJobs that start together are compared with
the quota, since a later ReplicatedJob may start after these have ended. Limits, quotas with scopes, and sets whose pods
request nothing are not checked. The set is not refused, since a quota may be changed. Only checks with the rights of
the JobSet's author show the name and the amounts of a quota, since authors need not have the right to read quotas.

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

CACHE_SECONDS = 30.0
"""Seconds for which the quotas of a namespace are not read again."""
MAX_NAMESPACES = 256
"""The most namespaces whose quotas are remembered."""
MAX_QUOTAS = 16
"""The most quotas of a namespace that are read."""
_POD_COUNT_KEYS = ("pods", "count/pods")
_REQUESTS_PREFIX = "requests."

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
                    limits[_limited_resource(key)] = min(amount, limits.get(_limited_resource(key), amount))
        return limits


def _is_of_pods(key: str) -> bool:
    """Whether this key in the `hard` limits of a quota limits the number of pods or their requests."""
    return key in {*_POD_COUNT_KEYS, "cpu", "memory"} or key.startswith(_REQUESTS_PREFIX)


def _limited_resource(key: str) -> str:
    return "pods" if key in _POD_COUNT_KEYS else key.removeprefix(_REQUESTS_PREFIX)


def has_requests(judged: JudgedJobSet) -> bool:
    """Whether pods of a JobSet request resources. If not, neither quotas nor nodes are read."""
    return any(template.job_count and template.requests for template in judged.templates)


Limits = dict[str, tuple[Amount, str]]
"""By resource, the lowest limit of all quotas, and the name of the quota that has it."""


def strictest_limits(quotas: Sequence[Quota]) -> Limits:
    """The limits that all of the quotas allow."""
    limits: Limits = {}
    for quota in quotas:
        for name, amount in quota.limits.items():
            limits[name] = min((amount, quota.metadata.name), limits.get(name, (amount, quota.metadata.name)))
    return limits


def quota_warnings(judged: JudgedJobSet, limits: Limits, *, shows_quota: bool) -> Iterator[FieldError]:
    """Warnings where pods request more than quotas allow; of several resources the first by name.

    `shows_quota`: whether a warning has the quota's name and amount.
    """
    return findings_alone_or_together(
        judged, lambda path, templates: _quota_warning(path, templates, limits, shows_quota=shows_quota)
    )


def findings_alone_or_together(
    judged: JudgedJobSet, find: Callable[[Path, Sequence[Template]], FieldError | None]
) -> Iterator[FieldError]:
    """The findings of `find` about each ReplicatedJob; if it finds nothing, about ReplicatedJobs that start together.

    `find` gets the path and the templates of the pods that run at once.
    """
    single_templates = [(template.path, (template,)) for template in judged.templates]
    joint_templates = [(Path(("spec", "replicatedJobs")), templates) for templates in _starting_together(judged)]
    for groups in (single_templates, joint_templates):
        findings = [find(path, templates) for path, templates in groups]
        if any(findings):
            yield from filter(None, findings)
            return


def _starting_together(judged: JudgedJobSet) -> Iterator[tuple[Template, ...]]:
    """Groups of ReplicatedJobs that start at once: each stage, or without stages all without `dependsOn`."""
    spec = judged.js.spec
    remaining_templates = iter(judged.templates)
    for stage in stages(spec):
        yield tuple(islice(remaining_templates, len(stage)))
    if not is_ordered(spec):
        yield tuple(template for template in remaining_templates if not template.rjob.depends_on)


def _quota_warning(
    path: Path, templates: Sequence[Template], limits: Limits, *, shows_quota: bool
) -> FieldError | None:
    total = total_requests(templates)
    resource = min(exceeding_resources(total, {name: limit for name, (limit, _) in limits.items()}), default="")
    if not resource:
        return None
    unit = "Gi" if resource == "memory" else ""
    limit, quota = limits[resource]
    return QUOTA.at(
        path,
        None,
        amount=with_unit(total[resource], unit),
        resource=resource,
        quota=f"the {with_unit(limit, unit)} that quota {quota}" if shows_quota else "a quota",
    )


def total_requests(templates: Sequence[Template]) -> Amounts:
    """The sum of the requests of all pods of the templates, and the number of these pods as the resource `pods`."""
    pods = sum(template.pod_count for template in templates)
    return {"pods": pods, **sum_requests((template.requests, template.pod_count) for template in templates)}


class Quotas:
    """Reads the quotas of namespaces and remembers their limits. One instance for a process."""

    def __init__(self, timeout: float, *, has_author_rights: bool) -> None:
        """`timeout`: seconds for one request. `has_author_rights`: the client has the rights of the JobSets' author."""
        self._timeout = timeout
        self._has_author_rights = has_author_rights
        self._limits: Lookups[str, Limits] = Lookups(MAX_NAMESPACES)

    async def warnings(self, judged: JudgedJobSet, client: Client) -> list[FieldError]:
        """Warnings about a new JobSet; empty without the right to read quotas. Raises without an answer."""
        namespace = judged.js.metadata.namespace
        limits = await self._limits.get(
            namespace, lambda: self._read_limits(namespace, client), lambda _: CACHE_SECONDS
        )
        if not limits:
            return []
        return await compute(lambda: list(quota_warnings(judged, limits, shows_quota=self._has_author_rights)))

    async def _read_limits(self, namespace: str, client: Client) -> Limits:
        try:
            page = await client.list(
                RESOURCE_QUOTAS, type=Quota, namespace=namespace, limit=MAX_QUOTAS, timeout=self._timeout
            )
        except Forbidden:
            return {}
        return strictest_limits(page.items or ())
