"""One line of the log for each review, with what joins it to the lines of the controller: the UID of the object.

Of an object only its identity is written, and of that only what can be a name, a UID or a number: whoever reaches the
port can send anything.
"""

import logging
import re
from collections.abc import Callable
from typing import Any, Final

from api.jsontree import dig
from webhooks.review import AdmissionRequest, AdmissionResponse

log = logging.getLogger(__name__)

LINES_PER_SECOND: Final = 100
"""Lines that are written; whoever reaches the port could fill the log."""

MAX_RULES: Final = 10
"""Ids of broken rules in one line."""

_NAME: Final = re.compile(r"[0-9A-Za-z.-]{0,253}")
_MAX_GENERATION: Final = 2**63


class ReviewLog:
    """For all webhooks of a process. `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._second = 0
        self._lines = 0

    def write(self, request: AdmissionRequest, answer: AdmissionResponse, *, decides: bool) -> None:
        """At info if the answer `decides` about the object, or refuses it; else at debug."""
        level = logging.INFO if decides or not answer.allowed else logging.DEBUG
        if not log.isEnabledFor(level) or not self._may():
            return
        known = identity(request)
        what = f"{shown(request.operation)} {known['namespace']}/{known['name']}"
        if request.dry_run:
            what = f"{what} (dry run)"
        if answer.allowed:
            log.log(level, "admitted %s", what)
        else:
            reason = (answer.status or {}).get("reason", "")
            rules = f": {', '.join(answer.rules[:MAX_RULES])}" if answer.rules else ""
            log.log(level, "refused %s: %d %s%s", what, answer.code, reason, rules)

    def _may(self) -> bool:
        """Whether there is room for one more line in this second."""
        second = int(self._clock())
        if second != self._second:
            left_out = self._lines - LINES_PER_SECOND
            self._second, self._lines = second, 0
            if left_out > 0:
                log.warning("%d reviews are not in the log: more than %d in a second", left_out, LINES_PER_SECOND)
        self._lines += 1
        return self._lines <= LINES_PER_SECOND


def identity(request: AdmissionRequest) -> dict[str, str | int]:
    """Fields of the log: the review's UID, namespace and name; the object's UID and generation where it has them.

    The API server gives a new object its UID, and a name made of `generateName`, before it asks a validating webhook.
    """
    obj = request.old_object if request.object is None else request.object
    name, uid, generation = (dig(obj, "metadata", key) for key in ("name", "uid", "generation"))
    fields: dict[str, str | int] = {
        "requestUID": shown(request.uid),
        "namespace": shown(request.namespace),
        "name": shown(name or request.name),
    }
    if uid:
        fields["uid"] = shown(uid)
    if isinstance(generation, int) and not isinstance(generation, bool) and 0 < generation < _MAX_GENERATION:
        fields["generation"] = generation
    return fields


def shown(text: Any) -> str:
    """A name or UID; "?" for what cannot be one."""
    return text if isinstance(text, str) and _NAME.fullmatch(text) else "?"
