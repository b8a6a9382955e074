"""Writes one log line for each review, with the UID of the object, which log lines of the controller have, too.

Only the identity of an object is logged, and only valid names, UIDs and numbers, since any client that reaches the port
can send any text.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from kube.model.jsontree import dig
from webhooks.review import AdmissionRequest, AdmissionResponse

log = logging.getLogger(__name__)

MAX_RULES: Final = 10
"""The most ids of broken rules in one log line."""

_NAME: Final = re.compile(r"[0-9A-Za-z.-]{0,253}")
_MAX_GENERATION: Final = 2**63


Identity = Mapping[str, str | int]
"""Fields of log lines that say which object a review is about."""


def log_review(
    request: AdmissionRequest, identity: Identity, answer: AdmissionResponse, *, is_validating: bool
) -> None:
    """Log a review: at info if the webhook is a validating webhook or refuses the object, otherwise at debug."""
    level = logging.INFO if is_validating or not answer.allowed else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    subject = f"{loggable_text(request.operation)} {identity['namespace']}/{identity['name']}"
    if request.dry_run:
        subject = f"{subject} (dry run)"
    if answer.allowed:
        log.log(level, "admitted %s", subject)
    else:
        reason = (answer.status or {}).get("reason", "")
        rules = f": {', '.join(answer.rule_ids[:MAX_RULES])}" if answer.rule_ids else ""
        log.log(level, "refused %s: %d %s%s", subject, answer.code, reason, rules)


def identity_fields(request: AdmissionRequest) -> Identity:
    """Fields for log lines: the review's UID, namespace and name, and the UID and generation of the object, if any.

    The API server gives a new object its UID, and a name from `generateName`, before it calls a validating webhook.
    """
    obj = request.old_object if request.object is None else request.object
    name, uid, generation = (dig(obj, "metadata", key) for key in ("name", "uid", "generation"))
    fields: dict[str, str | int] = {
        "requestUID": loggable_text(request.uid),
        "namespace": loggable_text(request.namespace),
        "name": loggable_text(name or request.name),
    }
    if uid:
        fields["uid"] = loggable_text(uid)
    if isinstance(generation, int) and not isinstance(generation, bool) and 0 < generation < _MAX_GENERATION:
        fields["generation"] = generation
    return fields


def loggable_text(text: Any) -> str:
    """The text of a name or UID; "?" if it is invalid."""
    return text if isinstance(text, str) and _NAME.fullmatch(text) else "?"
