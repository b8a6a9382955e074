"""Carries out or refuses requests on objects, as an API server does.

Methods for defaults, validation and storage are hooks that a larger simulation overrides.
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from dev.simulator import group_rules, job_rules, jobset_rules
from dev.simulator.patches import merge
from dev.simulator.storage import Item, JsonItem, Key, Scope, Storage
from kube.model.meta import JSON

FOREGROUND = "foregroundDeletion"
KINDS = {"workloads": "Workload", "podgroups": "PodGroup", "compositepodgroups": "CompositePodGroup"}
"""Kinds of groups by plural name."""

_SERVER_METADATA = (
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
    """The server refuses a request. `code` and `reason` are those of the answer."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def status(code: int, reason: str, message: str) -> JSON:
    """Return the metav1.Status of a refusal."""
    type_meta = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**type_meta, "message": message, "reason": reason, "code": code}


class ApiServer:
    """Objects of any resource, by its plural name. The methods for requests may raise `RefusedError`."""

    before_1_36 = False
    """Whether the pod template of a Job that has ever started is immutable, even while it is suspended."""

    def __init__(self) -> None:
        self.storage = Storage()
        self._numbers = itertools.count(1)

    # Hooks that a larger simulation overrides

    def new_uid(self) -> str:
        return f"uid-{next(self._numbers)}"

    def timestamp(self) -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def item(self, plural: str, content: JSON) -> Item:  # noqa: ARG002 -- for those that keep more
        """Return the item as which an object is stored."""
        return JsonItem(content)

    def with_defaults(self, plural: str, new: JSON) -> JSON:
        """Return a new object with the defaults of its kind."""
        return job_rules.with_defaults(new) if plural == "jobs" else new

    def check_new(self, plural: str, new: JSON) -> None:
        """Raise `RefusedError` for a new object that is not valid."""
        if plural == "jobs":
            _refuse(job_rules.refusal(new))
        elif plural in KINDS:
            _refuse(group_rules.refusal(KINDS[plural], new["spec"]))

    def check_change(self, plural: str, old: Item, new: JSON, sub: str) -> None:
        """Raise `RefusedError` for an update that is not valid. `sub`: the subresource, "status" or ""."""
        if plural == "jobs":
            old_body = old.body()
            check = job_rules.status_refusal(old_body, new) if sub else ""
            _refuse(check or job_rules.change_refusal(old_body, new, before_1_36=self.before_1_36))
        elif plural == "jobsets" and sub:
            _refuse(jobset_rules.status_refusal(old.body(), new["status"]))
        elif plural in KINDS and not sub:
            _refuse(group_rules.change_refusal(KINDS[plural], old.body()["spec"], new["spec"]))

    def check_deletion(self, plural: str, item: Item) -> None:
        """Raise `RefusedError` for a deletion that is not allowed."""

    def after_write(self, plural: str, item: Item) -> None:
        """Do what follows from the creation or change of an object. A larger simulation overrides it."""

    def remove(self, plural: str, item: Item, *, foreground: bool) -> Item | None:
        """Delete an object, or mark it as deleted if finalizers keep it. Returns the marked object, else None."""
        finalizers = [name for name in item.body()["metadata"].get("finalizers") or () if name != FOREGROUND]
        if finalizers or foreground:
            return self.mark_deleted(plural, item, [*finalizers, FOREGROUND] if foreground else finalizers)
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
        uid = self.new_uid()
        name = meta.get("name") or f"{meta.get('generateName', '')}{uid[:8]}"
        if (meta.get("namespace") or namespace) != namespace:
            raise RefusedError(400, "BadRequest", f"namespace {meta['namespace']!r} is not that of the request")
        if self.storage.get(plural, (namespace, name)) is not None:
            raise RefusedError(409, "AlreadyExists", f'{plural} "{name}" already exists')
        server_fields = {"name": name, "uid": uid, "creationTimestamp": self.timestamp(), "generation": 1}
        namespace_field = {"namespace": namespace} if namespace else {}
        new = self.with_defaults(
            plural, {**body, "metadata": {**meta, **server_fields, "resourceVersion": "0", **namespace_field}}
        )
        self.check_new(plural, new)
        return self.item(plural, new) if dry_run else self.put(plural, new)

    def update(self, plural: str, key: Key, body: JSON, sub: str = "") -> Item:
        """Replace an object, or its status."""
        item = self.get(plural, key)
        return self._change(plural, item, body.get("metadata") or {}, body, sub)

    def patch(
        self, plural: str, key: Key, patch: JSON, sub: str = "", *, apply_patch: Callable[[Any, Any], Any] = merge
    ) -> Item:
        """Apply a patch to an object, or to its status. `apply_patch(object, patch)` returns the patched object."""
        item = self.get(plural, key)
        return self._change(plural, item, patch.get("metadata") or {}, apply_patch(item.body(), patch), sub)

    def delete(
        self, plural: str, key: Key, preconditions: JSON | None = None, *, foreground: bool = False
    ) -> Item | None:
        """Delete an object if these preconditions hold (UID, resourceVersion). Returns what `remove` returns."""
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
        """Store an object, unless an equal one is stored. Returns the stored item."""
        item = self.item(plural, content)
        old = self.storage.get(plural, item.key)
        if old is not None and old.body() == content:
            return old
        new = self.storage.put(plural, item)
        self.after_write(plural, new)
        return new

    def mark_deleted(self, plural: str, item: Item, finalizers: list[str]) -> Item:
        """Set the finalizers of an object, and its deletion timestamp unless it has one."""
        body = item.body()
        meta = {**body["metadata"], "finalizers": finalizers}
        if "deletionTimestamp" not in meta:
            meta |= {"deletionTimestamp": self.timestamp(), "generation": meta.get("generation", 0) + 1}
        return self.put(plural, {**body, "metadata": meta})

    def _change(self, plural: str, item: Item, request_metadata: JSON, requested: JSON, sub: str) -> Item:
        """Update the object, or its status, from `requested`. `request_metadata` has the preconditions."""
        _check_preconditions(plural, item, request_metadata)
        old = item.body()
        new = {**old, "status": requested.get("status") or {}} if sub else _updated_object(old, requested)
        self.check_change(plural, item, new, sub)
        old_metadata = old["metadata"]
        if (
            "deletionTimestamp" in old_metadata
            and old_metadata.get("finalizers")
            and not new["metadata"].get("finalizers")
        ):
            self.storage.drop(plural, item.key)
            return self.item(plural, new)
        return self.put(plural, new)


def _updated_object(old: JSON, requested: JSON) -> JSON:
    """Return the object after an update, which changes neither the status nor `_SERVER_METADATA`."""
    old_metadata = old["metadata"]
    meta = {k: v for k, v in (requested.get("metadata") or {}).items() if k not in _SERVER_METADATA}
    meta |= {name: old_metadata[name] for name in _SERVER_METADATA if name in old_metadata}
    new = {name: part for name, part in requested.items() if name != "status"}
    if new.get("spec") != old.get("spec"):
        meta["generation"] = old_metadata.get("generation", 0) + 1
    return {**new, "metadata": meta, **({"status": old["status"]} if "status" in old else {})}


def _check_preconditions(plural: str, item: Item, preconditions: JSON) -> None:
    """Raise a conflict if the UID or resourceVersion of the request is not the current one."""
    for name, current in (("uid", item.uid), ("resourceVersion", str(item.version))):
        if preconditions.get(name, current) != current:
            message = f'{plural} "{item.key[1]}": the {name} is {current}, not {preconditions[name]}'
            raise RefusedError(409, "Conflict", message)


def _refuse(reason: str) -> None:
    if reason:
        raise RefusedError(422, "Invalid", reason)
