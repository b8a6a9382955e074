"""The rule by which conditions change (docs/reference/status.md#conditions), as a pure function."""

import msgspec

from api.keys import STARTUP_COMPLETED, STARTUP_IN_PROGRESS
from kube.model.meta import Condition

_EXCLUSIVE = {STARTUP_IN_PROGRESS: STARTUP_COMPLETED, STARTUP_COMPLETED: STARTUP_IN_PROGRESS}


def set_condition(conditions: tuple[Condition, ...], new: Condition, *, always: bool = False) -> tuple[Condition, ...]:
    """Merge `new` (with `last_transition_time` = now) into the list.

    A condition that does not exist yet is added only when it is True, or if `always`. A change of reason or message
    alone keeps the transition time. The two startup conditions exclude each other: when one becomes True the other's
    status is flipped.
    """
    out: list[Condition] = []
    found = False
    for old in conditions:
        if old.type == new.type:
            found = True
            out.append(_merge(old, new))
        elif new.status == "True" and old.status == "True" and _EXCLUSIVE.get(new.type) == old.type:
            out.append(msgspec.structs.replace(old, status="False", last_transition_time=new.last_transition_time))
        else:
            out.append(old)
    if not found and (always or new.status == "True"):
        out.append(new)
    return tuple(out)


def _merge(old: Condition, new: Condition) -> Condition:
    if old.status != new.status:
        return new
    return msgspec.structs.replace(old, reason=new.reason, message=new.message)
