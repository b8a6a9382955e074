"""What a quota refuses, from the message of the API server. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from api.node_offers import in_words
from api.quantity import parse_quantity

_AMOUNTS = r"([^\s,=]+=[^\s,]+(?:,[^\s,=]+=[^\s,]+)*)"
_EXCEEDED = re.compile(f"exceeded quota: ([^\\s,]+), requested: {_AMOUNTS}, used: {_AMOUNTS}, limited: {_AMOUNTS}")


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A quota and, of the first resource that it refuses, what one object needs and what is left of how much."""

    quota: str
    resource: str
    needs: Fraction
    left: Fraction
    limit: Fraction

    def words(self, objects: int = 1) -> str:
        """`need 24 cpu, quota compute has 2 left of 26`; so many objects need it together."""
        need = "needs" if objects == 1 else "need"
        left, limit = (self._number(amount) for amount in (self.left, self.limit))
        return f"{need} {in_words(self.needs * objects, self._plain)}, quota {self.quota} has {left} left of {limit}"

    def fix(self, namespace: str, objects: int = 1) -> str:
        """How to allow so many objects."""
        enough = self._number(self.limit - self.left + self.needs * objects)
        patch = f'{{"spec":{{"hard":{{"{self.resource}":"{enough}"}}}}}}'
        raised = f"kubectl patch quota {self.quota} -n {namespace} --type=merge -p '{patch}'"
        uses = f"wait for what uses it (kubectl describe quota -n {namespace})"
        return f"{uses}, request less in a new JobSet, or raise it: {raised}"

    @property
    def _plain(self) -> str:
        return self.resource.removeprefix("requests.")

    def _number(self, amount: Fraction) -> str:
        return in_words(max(amount, Fraction()), self._plain).partition(" ")[0]


def exceeded(message: str) -> Exceeded | None:
    """The quota that a message names; None if it names none."""
    found = _EXCEEDED.search(message)
    if found is None:
        return None
    requested, used, limited = (_amounts(text) for text in found.groups()[1:])
    for resource, needs in requested.items():
        used_up, limit = used.get(resource, Fraction()), limited.get(resource)
        if limit is not None and used_up + needs > limit:
            return Exceeded(found[1], resource, needs, limit - used_up, limit)
    return None


def _amounts(text: str) -> Mapping[str, Fraction]:
    parts = (part.partition("=") for part in text.split(","))
    return {name: amount for name, _, value in parts if (amount := parse_quantity(value)) is not None}
