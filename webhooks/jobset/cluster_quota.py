"""Whether one ReplicatedJob of a new JobSet asks for more than a ResourceQuota of its namespace allows. A warning.

The API server refuses pods over a quota one by one, and no status says so. ReplicatedJobs may run one after the other,
so each is compared on its own, and with the whole quota: what others use of it changes. Limits, quotas with scopes, and
sets whose pods request nothing are not looked at. A quota may be changed later, and its amounts are not told: who
creates JobSets need not know them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from api.field import ErrorType, FieldError
from api.jobset_policy.judged import Judged, Template
from api.jobset_policy.requests import Amount, Amounts, amounts
from api.quantity import with_unit
from kube.client import Client
from kube.errors import Forbidden
from kube.resources import RESOURCE_QUOTAS
from webhooks.jobset.cluster_lookups import Lookups
from webhooks.jobset.cluster_verdict import warning
from webhooks.offload import compute

KEPT_FOR = 30.0
"""Seconds for which the quotas of a namespace are not read again."""
MOST_NAMESPACES = 256
"""Namespaces whose quotas are remembered, the latest."""
MOST_QUOTAS = 16
"""Quotas of a namespace that are read."""
_PODS = ("pods", "count/pods")
_REQUESTS = "requests."

QUOTA = warning(
    "quota-too-small",
    "needs {amount} of {resource} at once, more than a quota allows: some pods wait",
    "ask for more, or run fewer pods",
    kind=ErrorType.TOO_MANY,
)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    hard: dict[str, Any] | None = None
    scopes: list[Any] | None = None
    scope_selector: Any = None


class Quota(msgspec.Struct, gc=False):
    """A ResourceQuota, as far as it is read."""

    spec: _Spec | None = None

    @property
    def allowed(self) -> Amounts:
        """What pods may request together, by resource; nothing for a quota of some pods only."""
        least: Amounts = {}
        if self.spec is not None and not self.spec.scopes and not self.spec.scope_selector:
            for key, amount in amounts(self.spec.hard).items():
                if _counts(key):
                    least[_resource(key)] = min(amount, least.get(_resource(key), amount))
        return least


def _counts(key: str) -> bool:
    """Whether this key of a quota is an amount of pods, or of what they request."""
    return key in {*_PODS, "cpu", "memory"} or key.startswith(_REQUESTS)


def _resource(key: str) -> str:
    return "pods" if key in _PODS else key.removeprefix(_REQUESTS)


def requests_anything(judged: Judged) -> bool:
    """Whether pods of a JobSet request resources: neither quotas nor nodes are read for others."""
    return any(template.jobs and template.requests for template in judged.templates)


def strictest(quotas: Sequence[Quota]) -> Amounts:
    """The least that any quota allows, by resource."""
    least: Amounts = {}
    for quota in quotas:
        for name, amount in quota.allowed.items():
            least[name] = min(amount, least.get(name, amount))
    return least


def too_much(judged: Judged, allowed: Amounts) -> Iterator[FieldError]:
    """A warning at each ReplicatedJob that alone needs more than is allowed; of its resources the first by name."""
    for template in judged.templates:
        needed = _needed(template)
        over = sorted(name for name, amount in needed.items() if amount > allowed.get(name, amount))
        if over:
            amount = with_unit(needed[over[0]], "Gi" if over[0] == "memory" else "")
            yield QUOTA.at(template.path, None, amount=amount, resource=over[0])


def _needed(template: Template) -> dict[str, Amount]:
    """What all its pods need together."""
    return {"pods": template.pods} | {name: template.pods * amount for name, amount in template.requests.items()}


class Quotas:
    """Reads the quotas of namespaces and remembers what they allow. One for a process."""

    def __init__(self, budget: float) -> None:
        """`budget`: seconds for one call."""
        self._budget = budget
        self._known: Lookups[str, Amounts] = Lookups(MOST_NAMESPACES)

    async def too_small(self, judged: Judged, client: Client) -> list[FieldError]:
        """Warnings about a new JobSet; raises when there is no answer. None where the client has no right to read."""
        namespace = judged.js.metadata.namespace
        allowed = await self._known.get(namespace, lambda: self._read(namespace, client), lambda _: KEPT_FOR)
        return await compute(lambda: list(too_much(judged, allowed))) if allowed else []

    async def _read(self, namespace: str, client: Client) -> Amounts:
        try:
            page = await client.list(
                RESOURCE_QUOTAS, type=Quota, namespace=namespace, limit=MOST_QUOTAS, timeout=self._budget
            )
        except Forbidden:
            return {}
        return strictest(page.items or ())
