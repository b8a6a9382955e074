"""Changes conditions of a status (docs/reference/status.md#conditions). Pure."""

import msgspec

from api.keys import STARTUP_COMPLETED, STARTUP_IN_PROGRESS
from kube.model.meta import Condition

_EXCLUSIVE = {STARTUP_IN_PROGRESS: STARTUP_COMPLETED, STARTUP_COMPLETED: STARTUP_IN_PROGRESS}


def set_condition(conditions: tuple[Condition, ...], new: Condition, *, always: bool = False) -> tuple[Condition, ...]:
    """The conditions after `new`, whose `last_transition_time` is now, is set.

    A condition that does not exist yet is added only if it is True, or if `always`. A change of reason or message alone
    keeps the transition time. The two startup conditions exclude each other: when one becomes True, the other becomes
    False.
    """
    changed: list[Condition] = []
    exists = False
    for old in conditions:
        if old.type == new.type:
            exists = True
            changed.append(_merge(old, new))
        elif new.status == "True" and old.status == "True" and _EXCLUSIVE.get(new.type) == old.type:
            changed.append(msgspec.structs.replace(old, status="False", last_transition_time=new.last_transition_time))
        else:
            changed.append(old)
    if not exists and (always or new.status == "True"):
        changed.append(new)
    return tuple(changed)


def _merge(old: Condition, new: Condition) -> Condition:
    if old.status != new.status:
        return new
    return msgspec.structs.replace(old, reason=new.reason, message=new.message)
