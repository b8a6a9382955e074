"""What a quota refuses, from the message of the API server and from the quota as it is now. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from api.node_offers import in_words, number_in_words
from diagnose.facts import SeenQuota
from diagnose.wording import exceeded_quota
from kube.model.quantity import parse_quantity


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """A quota, and for the first resource that it refuses, what one object needs and what is left of the limit.

    `gone`: there is no such quota any more.
    """

    quota: str
    resource: str
    needs: Fraction
    left: Fraction
    limit: Fraction
    gone: bool = False

    def words(self, objects: int = 1) -> str:
        """`need 24 cpu, quota compute has 2 left of 26`; that many objects need it together."""
        if self.gone:
            return f"quota {self.quota} refused them, and there is no such quota any more"
        need = "needs" if objects == 1 else "need"
        left, limit = (self._number(amount) for amount in (self.left, self.limit))
        needs = f"{need} {in_words(self.needs * objects, self._plain)}"
        now = f" and allows {self._by_now(objects)} now" if self.allowed else ""
        return f"{needs}, quota {self.quota} has {left} left of {limit}{now}"

    def too_few(self, objects: int) -> bool:
        """Whether the quota is too small for that many objects, even if nothing else uses it."""
        return not self.gone and self.needs * objects > self.limit

    def in_all(self, objects: int, noun: str) -> str:
        """`; its 8 pods need 8 nvidia.com/gpu in all: they are never there all at once`; empty if they may be."""
        if not self.too_few(objects):
            return ""
        needs = in_words(self.needs * objects, self._plain)
        return f"; its {objects} {noun} need {needs} in all: they are never there all at once"

    def _by_now(self, objects: int) -> str:
        number = min(int(self.left // self.needs), objects)
        return "that" if number == objects else f"{number} of {objects}"

    @property
    def allowed(self) -> bool:
        """Whether there is enough left for one object."""
        return self.gone or self.needs <= self.left

    def fix(self, namespace: str, objects: int, in_all: int) -> str:
        """How to make room for that many objects. `in_all`: how many the set has when all of them exist."""
        enough = self._number(self.limit - self.left + self.needs * objects)
        patch = f'{{"spec":{{"hard":{{"{self.resource}":"{enough}"}}}}}}'
        raised = f"kubectl patch quota {self.quota} -n {namespace} --type=merge -p '{patch}'"
        if self.too_few(in_all):
            return f"raise it: {raised}; or request less, or run fewer pods, in a new JobSet"
        uses = f"wait for what uses it (kubectl describe quota -n {namespace})"
        return f"{uses}, request less in a new JobSet, or have an administrator of the namespace run {raised}"

    @property
    def _plain(self) -> str:
        return self.resource.removeprefix("requests.")

    def _number(self, amount: Fraction) -> str:
        return number_in_words(max(amount, Fraction()), self._plain)


def quota_refusal(message: str) -> QuotaRefusal | None:
    """What a message of the API server says of a quota; None if it names none."""
    found = exceeded_quota(message)
    return QuotaRefusal(*found) if found else None


def as_it_is(refusal: QuotaRefusal, quotas: Mapping[str, SeenQuota | None]) -> QuotaRefusal:
    """The refusal with the limit and the use of the quota as they are now, as far as the quota was read."""
    quota = quotas.get(refusal.quota)
    if quota is None:
        return replace(refusal, gone=refusal.quota in quotas)
    limit = parse_quantity(quota.status.hard.get(refusal.resource))
    used = parse_quantity(quota.status.used.get(refusal.resource)) or Fraction()
    return refusal if limit is None else replace(refusal, left=limit - used, limit=limit)
