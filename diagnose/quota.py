"""Refusals by a ResourceQuota, parsed from messages of the API server and updated with the present quota. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from api.node_offers import format_amount, format_number
from diagnose.facts import SeenQuota
from diagnose.wording import exceeded_quota
from kube.model.quantity import parse_quantity


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """The refusal of objects by a quota.

    - `resource`: the first resource that the quota refused. `needs`: how much of it one object needs.
    - `left`: how much of the `limit` is free.
    - `gone`: the quota has been deleted.
    """

    quota: str
    resource: str
    needs: Fraction
    left: Fraction
    limit: Fraction
    gone: bool = False

    def words(self, objects: int = 1) -> str:
        """The refusal as a clause about this number of objects: `need 24 cpu, quota compute has 2 left of 26`."""
        if self.gone:
            return f"quota {self.quota} refused them, and has been deleted since"
        need = "needs" if objects == 1 else "need"
        left, limit = (self._number(amount) for amount in (self.left, self.limit))
        needs = f"{need} {format_amount(self.needs * objects, self._short_resource)}"
        now = f" and allows {self._allowed_now(objects)} now" if self.allowed else ""
        return f"{needs}, quota {self.quota} has {left} left of {limit}{now}"

    def is_too_small(self, objects: int) -> bool:
        """Whether the quota is too small for this number of objects, even if nothing else uses the quota."""
        return not self.gone and self.needs * objects > self.limit

    def never_fits(self, objects: int, noun: str) -> str:
        """A clause if the quota is too small for all objects, else empty.

        An example: `; its 8 pods need 8 nvidia.com/gpu in all: they never run all at once`.
        """
        if not self.is_too_small(objects):
            return ""
        needs = format_amount(self.needs * objects, self._short_resource)
        return f"; its {objects} {noun} need {needs} in all: they never run all at once"

    def _allowed_now(self, objects: int) -> str:
        number = min(int(self.left // self.needs), objects)
        return "that" if number == objects else f"{number} of {objects}"

    @property
    def allowed(self) -> bool:
        """Whether the quota has enough left for one object."""
        return self.gone or self.needs <= self.left

    def fix(self, namespace: str, objects: int, total: int) -> str:
        """The fix for `objects` that are refused. `total`: the number of such objects when the set is complete."""
        enough = self._number(self.limit - self.left + self.needs * objects)
        patch = f'{{"spec":{{"hard":{{"{self.resource}":"{enough}"}}}}}}'
        raised = f"kubectl patch quota {self.quota} -n {namespace} --type=merge -p '{patch}'"
        if self.is_too_small(total):
            return f"raise it: {raised}; or request less, or run fewer pods, in a new JobSet"
        uses = f"wait for what uses it (kubectl describe quota -n {namespace})"
        return f"{uses}, request less in a new JobSet, or have an administrator of the namespace run {raised}"

    @property
    def _short_resource(self) -> str:
        return self.resource.removeprefix("requests.")

    def _number(self, amount: Fraction) -> str:
        return format_number(max(amount, Fraction()), self._short_resource)


def quota_refusal(message: str) -> QuotaRefusal | None:
    """The refusal that a message of the API server reports; None if it names no quota."""
    refusal = exceeded_quota(message)
    return QuotaRefusal(*refusal) if refusal else None


def update_refusal(refusal: QuotaRefusal, quotas: Mapping[str, SeenQuota | None]) -> QuotaRefusal:
    """The refusal with the present limit and use of the quota; unchanged if the quota was not read."""
    quota = quotas.get(refusal.quota)
    if quota is None:
        return replace(refusal, gone=refusal.quota in quotas)
    limit = parse_quantity(quota.status.hard.get(refusal.resource))
    used = parse_quantity(quota.status.used.get(refusal.resource)) or Fraction()
    return refusal if limit is None else replace(refusal, left=limit - used, limit=limit)
