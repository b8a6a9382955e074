"""Refusals by a ResourceQuota, parsed from messages of the API server and updated with the present quota. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from api.node_offers import format_amount, format_number
from diagnose.facts import SeenQuota
from kube.model.quantity import parse_quantity

_AMOUNTS = r"([^\s,=]+=[^\s,]+(?:,[^\s,=]+=[^\s,]+)*)"
_EXCEEDED = re.compile(f"exceeded quota: ([^\\s,]+), requested: {_AMOUNTS}, used: {_AMOUNTS}, limited: {_AMOUNTS}")


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """The refusal of objects by the quota named `quota`.

    - `resource`: the first resource that the quota refused. `needs`: how much of it one object needs, more than 0.
    - `left`: how much of the `limit` is free. `is_gone`: the quota has been deleted.
    """

    quota: str
    resource: str
    needs: Fraction
    left: Fraction
    limit: Fraction
    is_gone: bool = False

    def clause(self, objects: int = 1) -> str:
        """The refusal as a clause about this number of objects: `need 24 cpu, quota compute has 2 left of 26`."""
        if self.is_gone:
            return f"quota {self.quota} refused them, and has been deleted since"
        need = "needs" if objects == 1 else "need"
        left, limit = (self._number(amount) for amount in (self.left, self.limit))
        amount, now = format_amount(self.needs * objects, self._short_resource), ""
        if self.is_allowed:
            number = min(int(self.left // self.needs), objects)
            now = f" and allows {'that' if number == objects else f'{number} of {objects}'} now"
        return f"{need} {amount}, quota {self.quota} has {left} left of {limit}{now}"

    def is_too_small(self, objects: int) -> bool:
        """Whether the quota is too small for this number of objects, even if nothing else uses the quota."""
        return not self.is_gone and self.needs * objects > self.limit

    def never_fits_clause(self, objects: int, noun: str) -> str:
        """A clause that says so if the quota is too small for all objects together; else empty.

        An example: `; its 8 pods need 8 nvidia.com/gpu in all: they never run all at once`.
        """
        if not self.is_too_small(objects):
            return ""
        needs = format_amount(self.needs * objects, self._short_resource)
        return f"; its {objects} {noun} need {needs} in all: they never run all at once"

    @property
    def is_allowed(self) -> bool:
        """Whether the quota has enough left for one object."""
        return self.is_gone or self.needs <= self.left

    def fix(self, namespace: str, objects: int, total: int) -> str:
        """The fix for `objects` that are refused. `total`: the number of such objects when the JobSet is complete."""
        enough_amount = self._number(self.limit - self.left + self.needs * objects)
        patch = f'{{"spec":{{"hard":{{"{self.resource}":"{enough_amount}"}}}}}}'
        raise_command = f"kubectl patch quota {self.quota} -n {namespace} --type=merge -p '{patch}'"
        if self.is_too_small(total):
            return f"raise it: {raise_command}; or request less, or run fewer pods, in a new JobSet"
        wait_text = f"wait for what uses it (kubectl describe quota -n {namespace})"
        administrator = f"have an administrator of the namespace run {raise_command}"
        return f"{wait_text}, request less in a new JobSet, or {administrator}"

    @property
    def _short_resource(self) -> str:
        return self.resource.removeprefix("requests.")

    def _number(self, amount: Fraction) -> str:
        return format_number(max(amount, Fraction()), self._short_resource)


def quota_refusal(message: str) -> QuotaRefusal | None:
    """The refusal that a message of the API server reports; None if the message names no exceeded quota."""
    match = _EXCEEDED.search(message)
    if match is None:
        return None
    requested, used, limited = (_parse_amounts(text) for text in match.groups()[1:])
    for resource, needs in requested.items():
        used_up, limit = used.get(resource, Fraction()), limited.get(resource)
        if needs > 0 and limit is not None and used_up + needs > limit:
            return QuotaRefusal(match[1], resource, needs, limit - used_up, limit)
    return None


def _parse_amounts(text: str) -> Mapping[str, Fraction]:
    """The amounts by resource in a text such as `cpu=2,memory=1Gi`."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: amount for name, _, value in pairs if (amount := parse_quantity(value)) is not None}


def update_refusal(refusal: QuotaRefusal, quotas: Mapping[str, SeenQuota | None]) -> QuotaRefusal:
    """The refusal with the present limit and use of the quota; unchanged if the quota was not read."""
    quota = quotas.get(refusal.quota)
    if quota is None:
        return replace(refusal, is_gone=refusal.quota in quotas)
    limit = parse_quantity(quota.status.hard.get(refusal.resource))
    used = parse_quantity(quota.status.used.get(refusal.resource)) or Fraction()
    return refusal if limit is None else replace(refusal, left=limit - used, limit=limit)
