"""Switches a webhook configuration off and on. Pure.

A configuration that is off lists no webhook, so the API server calls none, and an annotation holds the list. The
manager writes only the CA bundle of listed webhooks, so it does not change such a configuration. Applying the
configuration again (kubectl, Helm, GitOps) also restores the list. The annotation then has no meaning any more.
"""

import enum
import json
from dataclasses import dataclass
from typing import Any

from api.keys import GROUP
from kube.model.meta import JSON
from manifests.admission import wrong_path

OFF_ANNOTATION = f"{GROUP}/webhooks-off"
"""Annotation of a configuration that is off, with the keys `since` (RFC 3339) and `webhooks` (the list)."""


class State(enum.Enum):
    """State of one webhook configuration."""

    ON = "on"
    OFF = "off"
    MISSING = "missing"
    """The configuration does not exist, or it lists no webhook although this program has not removed them."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One webhook configuration.

    `webhooks` are the names of the webhooks that are called when it is on. `since` is the time at which it was switched
    off.
    """

    kind: str
    name: str
    state: State
    webhooks: tuple[str, ...] = ()
    since: str = ""
    misdirected: tuple[str, ...] = ()
    """Webhooks that are called at a path at which the manager does not serve them, as `NAME at PATH`."""


def configuration_state(kind: str, name: str, stored: JSON | None) -> Configuration:
    """The state of a configuration. `stored` is None if it does not exist."""
    if stored is None:
        return Configuration(kind, name, State.MISSING)
    if listed := stored.get("webhooks"):
        misdirected = tuple(f"{hook.get('name', '')} at {path}" for hook in listed if (path := wrong_path(hook)))
        return Configuration(kind, name, State.ON, _names(listed), misdirected=misdirected)
    annotation = _annotation_content(stored)
    if annotation is None:
        return Configuration(kind, name, State.MISSING)
    return Configuration(kind, name, State.OFF, _names(annotation["webhooks"]), str(annotation["since"]))


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


def _annotation_content(stored: JSON) -> JSON | None:
    """The content of the annotation (`since` and `webhooks`); None without a valid annotation."""
    try:
        annotation: Any = json.loads((stored["metadata"].get("annotations") or {})[OFF_ANNOTATION])
    except (KeyError, ValueError):
        return None
    webhooks = annotation.get("webhooks") if isinstance(annotation, dict) else None
    if not isinstance(webhooks, list) or not webhooks or not all(isinstance(hook, dict) for hook in webhooks):
        return None
    return {"since": annotation.get("since", ""), "webhooks": webhooks}


def _names(webhooks: list[JSON]) -> tuple[str, ...]:
    return tuple(str(hook.get("name", "")) for hook in webhooks)
