"""The changes of a webhook configuration that is switched off or on. Pure.

Off, it lists no webhook, so the API server calls none, and an annotation holds the list. The manager writes only the CA
bundle of webhooks that are listed, so it leaves such a configuration alone. Applying the configuration again (kubectl,
Helm, GitOps) restores the list, too; the annotation then has no meaning any more.
"""

import enum
import json
from dataclasses import dataclass
from typing import Any

from api.keys import GROUP
from kube.model.meta import JSON
from manifests.admission import wrong_path

OFF_ANNOTATION = f"{GROUP}/webhooks-off"
"""Annotation of a configuration that is off: `since`, RFC 3339, and `webhooks`, the list."""


class State(enum.Enum):
    """State of one webhook configuration."""

    ON = "on"
    OFF = "off"
    MISSING = "missing"
    """The configuration does not exist, or it lists no webhook although this program has not removed them."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One webhook configuration.

    `webhooks` are the names of those that are called, or would be when on; `since`: when it was switched off.
    """

    kind: str
    name: str
    state: State
    webhooks: tuple[str, ...] = ()
    since: str = ""
    misdirected: tuple[str, ...] = ()
    """Webhooks that are called where the manager does not serve them, as `NAME at PATH`."""


def look(kind: str, name: str, stored: JSON | None) -> Configuration:
    """The state of a stored configuration; None if it does not exist."""
    if stored is None:
        return Configuration(kind, name, State.MISSING)
    if listed := stored.get("webhooks"):
        wrong = tuple(f"{hook.get('name', '')} at {path}" for hook in listed if (path := wrong_path(hook)))
        return Configuration(kind, name, State.ON, _names(listed), misdirected=wrong)
    stored_webhooks = _held_webhooks(stored)
    if stored_webhooks is None:
        return Configuration(kind, name, State.MISSING)
    return Configuration(kind, name, State.OFF, _names(stored_webhooks["webhooks"]), str(stored_webhooks["since"]))


def switched_off(stored: JSON, now: str) -> JSON:
    """The configuration, which has to be on, with its webhooks moved into the annotation."""
    annotation = json.dumps({"since": now, "webhooks": stored["webhooks"]})
    meta = stored["metadata"]
    annotations = {**(meta.get("annotations") or {}), OFF_ANNOTATION: annotation}
    return {**stored, "metadata": {**meta, "annotations": annotations}, "webhooks": []}


def switched_on(stored: JSON) -> JSON:
    """The configuration, which has to be off, with the webhooks from its annotation."""
    meta = stored["metadata"]
    annotations = {key: value for key, value in meta["annotations"].items() if key != OFF_ANNOTATION}
    webhooks = json.loads(meta["annotations"][OFF_ANNOTATION])["webhooks"]
    return {**stored, "metadata": {**meta, "annotations": annotations}, "webhooks": webhooks}


def _held_webhooks(stored: JSON) -> JSON | None:
    """The webhooks in the annotation; None without a valid one."""
    try:
        annotation: Any = json.loads((stored["metadata"].get("annotations") or {})[OFF_ANNOTATION])
    except (KeyError, ValueError):
        return None
    listed = annotation.get("webhooks") if isinstance(annotation, dict) else None
    if not isinstance(listed, list) or not listed or not all(isinstance(hook, dict) for hook in listed):
        return None
    return {"since": annotation.get("since", ""), "webhooks": listed}


def _names(webhooks: list[JSON]) -> tuple[str, ...]:
    return tuple(str(hook.get("name", "")) for hook in webhooks)
