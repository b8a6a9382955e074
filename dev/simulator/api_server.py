"""The requests on objects, as an API server carries them out or refuses them: names, preconditions, parts, deletion.

Methods for defaults and validation are hooks that a larger simulation overrides.
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from dev.simulator import group_rules, job_rules, jobset_rules
from dev.simulator.patches import merge
from dev.simulator.storage import Item, Key, Plain, Scope, Storage
from kube.model.meta import JSON

FOREGROUND = "foregroundDeletion"
KINDS = {"workloads": "Workload", "podgroups": "PodGroup", "compositepodgroups": "CompositePodGroup"}
"""Kinds of groups by plural name."""

SERVER_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
)
"""Metadata that no update changes."""


class RefusedError(Exception):
    """A request that is refused: status code and reason of the answer."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def status(code: int, reason: str, message: str) -> JSON:
    """metav1.Status of a refusal."""
    shape = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**shape, "message": message, "reason": reason, "code": code}


class ApiServer:
    """Objects of any resource, by plural name. Every method that changes something may raise `RefusedError`."""

    before_1_36 = False
    """Whether a Job that has started keeps its pod template while it is suspended."""

    def __init__(self) -> None:
        self.storage = Storage()
        self._numbers = itertools.count(1)

    # Hooks that a larger simulation overrides

    def uid(self) -> str:
        """A new one."""
        return f"uid-{next(self._numbers)}"

    def timestamp(self) -> str:
        """The time as it is written into objects."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def item(self, plural: str, content: JSON) -> Item:  # noqa: ARG002 -- for those that keep more
        """The representation in which an object is stored."""
        return Plain(content)

    def with_defaults(self, plural: str, new: JSON) -> JSON:
        """A new object with the defaults of its kind."""
        return job_rules.with_defaults(new) if plural == "jobs" else new

    def check_new(self, plural: str, new: JSON) -> None:
        """Raise `RefusedError` for a new object that is not valid."""
        if plural == "jobs":
            _refuse(job_rules.refusal(new))
        elif plural in KINDS:
            _refuse(group_rules.refusal(KINDS[plural], new["spec"]))

    def check_change(self, plural: str, old: Item, new: JSON, sub: str) -> None:
        """Raise `RefusedError` for an update that is not valid."""
        if plural == "jobs":
            has = old.body()
            check = job_rules.status_refusal(has, new) if sub else ""
            _refuse(check or job_rules.change_refusal(has, new, before_1_36=self.before_1_36))
        elif plural == "jobsets" and sub:
            _refuse(jobset_rules.status_refusal(old.body(), new["status"]))
        elif plural in KINDS and not sub:
            _refuse(group_rules.change_refusal(KINDS[plural], old.body()["spec"], new["spec"]))

    def check_deletion(self, plural: str, item: Item) -> None:
        """Raise `RefusedError` for a deletion that is not allowed."""

    def after_write(self, plural: str, item: Item) -> None:
        """Called after an object was created or changed."""

    def remove(self, plural: str, item: Item, *, foreground: bool) -> Item | None:
        """Delete an object. Returns it if finalizers keep it, None if it is gone."""
        finalizers = [name for name in item.body()["metadata"].get("finalizers") or () if name != FOREGROUND]
        if finalizers or foreground:
            return self.mark(plural, item, [*finalizers, FOREGROUND] if foreground else finalizers)
        self.storage.drop(plural, item.key)
        return None

    # Requests

    def get(self, plural: str, key: Key) -> Item:
        item = self.storage.get(plural, key)
        if item is None:
            raise RefusedError(404, "NotFound", f'{plural} "{key[1]}" not found')
        return item

    def create(self, plural: str, namespace: str, body: JSON, *, dry_run: bool = False) -> Item:
        meta = body.get("metadata") or {}
        uid = self.uid()
        name = meta.get("name") or f"{meta.get('generateName', '')}{uid[:8]}"
        if (meta.get("namespace") or namespace) != namespace:
            raise RefusedError(400, "BadRequest", f"namespace {meta['namespace']!r} is not that of the request")
        if self.storage.get(plural, (namespace, name)) is not None:
            raise RefusedError(409, "AlreadyExists", f'{plural} "{name}" already exists')
        own = {"name": name, "uid": uid, "creationTimestamp": self.timestamp(), "generation": 1}
        namespace_field = {"namespace": namespace} if namespace else {}
        new = self.with_defaults(
            plural, {**body, "metadata": {**meta, **own, "resourceVersion": "0", **namespace_field}}
        )
        self.check_new(plural, new)
        return self.item(plural, new) if dry_run else self.put(plural, new)

    def update(self, plural: str, key: Key, body: JSON, sub: str = "") -> Item:
        """Replace an object, or its status."""
        item = self.get(plural, key)
        return self._change(plural, item, body.get("metadata") or {}, body, sub)

    def patch(
        self, plural: str, key: Key, patch: JSON, sub: str = "", *, how: Callable[[Any, Any], Any] = merge
    ) -> Item:
        """Apply a patch of that kind to an object, or to its status."""
        item = self.get(plural, key)
        return self._change(plural, item, patch.get("metadata") or {}, how(item.body(), patch), sub)

    def delete(
        self, plural: str, key: Key, preconditions: JSON | None = None, *, foreground: bool = False
    ) -> Item | None:
        """Delete an object with these preconditions (UID, resourceVersion). Returns what `remove` does."""
        item = self.get(plural, key)
        _check_preconditions(plural, item, preconditions or {})
        self.check_deletion(plural, item)
        return self.remove(plural, item, foreground=foreground)

    def delete_all(self, plural: str, scope: Scope, *, foreground: bool = False) -> list[Item]:
        """Delete all objects in a scope, and return them."""
        items = self.storage[plural].select(scope)
        for item in items:
            self.check_deletion(plural, item)
            self.remove(plural, item, foreground=foreground)
        return items

    # Changes of objects, by requests and by controllers

    def put(self, plural: str, content: JSON) -> Item:
        """Store an object; an equal one changes nothing."""
        item = self.item(plural, content)
        old = self.storage.get(plural, item.key)
        if old is not None and old.body() == content:
            return old
        new = self.storage.put(plural, item)
        self.after_write(plural, new)
        return new

    def mark(self, plural: str, item: Item, finalizers: list[str]) -> Item:
        """Set the deletion timestamp of an object, and its finalizers."""
        body = item.body()
        meta = {**body["metadata"], "finalizers": finalizers}
        if "deletionTimestamp" not in meta:
            meta |= {"deletionTimestamp": self.timestamp(), "generation": meta.get("generation", 0) + 1}
        return self.put(plural, {**body, "metadata": meta})

    def _change(self, plural: str, item: Item, sent: JSON, wanted: JSON, sub: str) -> Item:
        """Update the object, or its status, from `wanted`. `sent`: metadata of the request."""
        _check_preconditions(plural, item, sent)
        old = item.body()
        new = {**old, "status": wanted.get("status") or {}} if sub else _updated_object(old, wanted)
        self.check_change(plural, item, new, sub)
        had = old["metadata"]
        if "deletionTimestamp" in had and had.get("finalizers") and not new["metadata"].get("finalizers"):
            self.storage.drop(plural, item.key)
            return self.item(plural, new)
        return self.put(plural, new)


def _updated_object(old: JSON, wanted: JSON) -> JSON:
    """The object after an update, which changes neither the status nor `SERVER_METADATA`."""
    had = old["metadata"]
    meta = {k: v for k, v in (wanted.get("metadata") or {}).items() if k not in SERVER_METADATA}
    meta |= {name: had[name] for name in SERVER_METADATA if name in had}
    new = {name: part for name, part in wanted.items() if name != "status"}
    if new.get("spec") != old.get("spec"):
        meta["generation"] = had.get("generation", 0) + 1
    return {**new, "metadata": meta, **({"status": old["status"]} if "status" in old else {})}


def _check_preconditions(plural: str, item: Item, wanted: JSON) -> None:
    """Raise a conflict if the UID or resourceVersion of the request is not the current one."""
    for name, current in (("uid", item.uid), ("resourceVersion", str(item.version))):
        if wanted.get(name, current) != current:
            message = f'{plural} "{item.key[1]}": the {name} is {current}, not {wanted[name]}'
            raise RefusedError(409, "Conflict", message)


def _refuse(reason: str) -> None:
    if reason:
        raise RefusedError(422, "Invalid", reason)
