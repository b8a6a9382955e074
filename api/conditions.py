"""The rule by which conditions change (docs/reference/status.md#conditions), as a pure function."""

from dataclasses import dataclass

import msgspec

from api.keys import STARTUP_COMPLETED, STARTUP_IN_PROGRESS
from kube.model.meta import Condition

_EXCLUSIVE = {STARTUP_IN_PROGRESS: STARTUP_COMPLETED, STARTUP_COMPLETED: STARTUP_IN_PROGRESS}


@dataclass(frozen=True, slots=True)
class Change:
    """Conditions after a change, and whether anything did change."""

    conditions: tuple[Condition, ...]
    changed: bool


def set_condition(conditions: tuple[Condition, ...], new: Condition, *, always: bool = False) -> Change:
    """Merge `new` (with `last_transition_time` = now) into the list.

    A condition that does not exist yet is added only when it is True, or if `always`. A change of reason or message
    alone keeps the transition time. The two startup conditions exclude each other: when one becomes True the other's
    status is flipped.
    """
    out: list[Condition] = []
    changed = False
    found = False
    for old in conditions:
        if old.type == new.type:
            found = True
            merged = _merge(old, new)
            changed |= merged != old
            out.append(merged)
        elif new.status == "True" and old.status == "True" and _EXCLUSIVE.get(new.type) == old.type:
            changed = True
            out.append(msgspec.structs.replace(old, status="False", last_transition_time=new.last_transition_time))
        else:
            out.append(old)
    if not found and (always or new.status == "True"):
        changed = True
        out.append(new)
    return Change(tuple(out), changed)


def _merge(old: Condition, new: Condition) -> Condition:
    if old.status != new.status:
        return new
    return msgspec.structs.replace(old, reason=new.reason, message=new.message)
