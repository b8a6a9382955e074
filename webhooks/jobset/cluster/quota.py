"""Whether a new JobSet requests more at once than a ResourceQuota of its namespace allows. A warning.

The API server refuses pods over a quota one by one, and no status shows it. Each ReplicatedJob is compared on its own,
then those that start together; later ones may run when these have ended. They are compared with the whole quota, since
its use by others changes. Limits, quotas with scopes, and sets whose pods request nothing are not checked. A quota may
be changed later. Only checks with the user's own rights show its name and amounts: authors of JobSets need not have the
right to read it.

Remembered: the quotas of a namespace, for 30 s; 256 namespaces at most. If it is wrong, a warning is out of date.
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
"""Namespaces whose quotas are remembered, the latest."""
MAX_QUOTAS = 16
"""Quotas of a namespace that are read."""
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
        """The total requests of pods that it allows, by resource; empty for a quota of some pods only."""
        least: Amounts = {}
        if self.spec is not None and not self.spec.scopes and not self.spec.scope_selector:
            for key, amount in amounts(self.spec.hard).items():
                if _counts(key):
                    least[_resource(key)] = min(amount, least.get(_resource(key), amount))
        return least


def _counts(key: str) -> bool:
    """Whether this key of a quota counts pods or their requests."""
    return key in {*_PODS, "cpu", "memory"} or key.startswith(_REQUESTS)


def _resource(key: str) -> str:
    return "pods" if key in _PODS else key.removeprefix(_REQUESTS)


def requests_anything(judged: JudgedJobSet) -> bool:
    """Whether pods of a JobSet request resources: neither quotas nor nodes are read for others."""
    return any(template.jobs and template.requests for template in judged.templates)


Allowed = dict[str, tuple[Amount, str]]
"""The least that any quota allows, and the name of that quota, by resource."""


def strictest(quotas: Sequence[Quota]) -> Allowed:
    """The least that any of them allows."""
    least: Allowed = {}
    for quota in quotas:
        for name, amount in quota.limits.items():
            least[name] = min((amount, quota.metadata.name), least.get(name, (amount, quota.metadata.name)))
    return least


def too_much(judged: JudgedJobSet, allowed: Allowed, *, named: bool) -> Iterator[FieldError]:
    """Warnings where pods request more than quotas allow; of several resources the first by name.

    `named`: whether to show the quota's name and amount.
    """
    return alone_or_together(judged, lambda path, templates: _over(path, templates, allowed, named=named))


def alone_or_together(
    judged: JudgedJobSet, find: Callable[[Path, Sequence[Template]], FieldError | None]
) -> Iterator[FieldError]:
    """Findings about each ReplicatedJob alone, or else about those that start together.

    `find` gets the path and the templates of the pods that run at once.
    """
    alone = [(template.path, (template,)) for template in judged.templates]
    together = [(Path(("spec", "replicatedJobs")), templates) for templates in _together(judged)]
    for groups in (alone, together):
        found = [find(path, templates) for path, templates in groups]
        if any(found):
            yield from filter(None, found)
            return


def _together(judged: JudgedJobSet) -> Iterator[tuple[Template, ...]]:
    """The ReplicatedJobs that start at once: a stage, or else those that wait for no others."""
    spec = judged.js.spec
    unstarted = iter(judged.templates)
    for stage in stages(spec):
        yield tuple(islice(unstarted, len(stage)))
    if not is_ordered(spec):
        yield tuple(template for template in unstarted if not template.rjob.depends_on)


def _over(path: Path, templates: Sequence[Template], allowed: Allowed, *, named: bool) -> FieldError | None:
    needed = needed_by(templates)
    over = min(exceeding_resources(needed, {name: most for name, (most, _) in allowed.items()}), default="")
    if not over:
        return None
    unit = "Gi" if over == "memory" else ""
    most, quota = allowed[over]
    return QUOTA.at(
        path,
        None,
        amount=with_unit(needed[over], unit),
        resource=over,
        quota=f"the {with_unit(most, unit)} that quota {quota}" if named else "a quota",
    )


def needed_by(templates: Sequence[Template]) -> Amounts:
    """The sum of the requests of all their pods."""
    pods = sum(template.pods for template in templates)
    return {"pods": pods, **sum_requests((template.requests, template.pods) for template in templates)}


class Quotas:
    """Reads the quotas of namespaces and remembers their limits. One for a process."""

    def __init__(self, budget: float, *, own_rights: bool) -> None:
        """`budget`: seconds for one call. `own_rights`: the client has the rights of the JobSets' author."""
        self._budget = budget
        self._own_rights = own_rights
        self._known: Lookups[str, Allowed] = Lookups(MAX_NAMESPACES)

    async def too_small(self, judged: JudgedJobSet, client: Client) -> list[FieldError]:
        """Warnings about a new JobSet; raises without an answer. Empty if the client has no right to read quotas."""
        namespace = judged.js.metadata.namespace
        allowed = await self._known.get(namespace, lambda: self._read(namespace, client), lambda _: KEPT_FOR)
        return await compute(lambda: list(too_much(judged, allowed, named=self._own_rights))) if allowed else []

    async def _read(self, namespace: str, client: Client) -> Allowed:
        try:
            page = await client.list(
                RESOURCE_QUOTAS, type=Quota, namespace=namespace, limit=MAX_QUOTAS, timeout=self._budget
            )
        except Forbidden:
            return {}
        return strictest(page.items or ())
