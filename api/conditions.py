"""Changes conditions of a status (docs/reference/status.md#conditions). Pure."""

from msgspec.structs import replace

from api.keys import STARTUP_COMPLETED, STARTUP_IN_PROGRESS
from kube.model.meta import Condition

_OPPOSITE_TYPE = {STARTUP_IN_PROGRESS: STARTUP_COMPLETED, STARTUP_COMPLETED: STARTUP_IN_PROGRESS}


def with_condition(
    conditions: tuple[Condition, ...], new: Condition, *, add_false: bool = False
) -> tuple[Condition, ...]:
    """The conditions with `new`, whose `last_transition_time` is now.

    If no condition has the type of `new`, `new` is added only if it is True, or `add_false`. A change of reason
    or message alone keeps the transition time. If one of the two startup conditions becomes True, the other one becomes
    False.
    """
    changed: list[Condition] = []
    exists = False
    for old in conditions:
        if old.type == new.type:
            exists = True
            is_same_status = old.status == new.status
            changed.append(replace(old, reason=new.reason, message=new.message) if is_same_status else new)
        elif new.status == "True" and old.status == "True" and _OPPOSITE_TYPE.get(new.type) == old.type:
            changed.append(replace(old, status="False", last_transition_time=new.last_transition_time))
        else:
            changed.append(old)
    if not exists and (add_false or new.status == "True"):
        changed.append(new)
    return tuple(changed)
