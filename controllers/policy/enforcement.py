"""Makes the API server enforce policies with `apiServer: Enforce`, too, in the replica with the lease.

Such a policy is compiled to admission policies of the API server (in CEL) and their bindings, the compiled objects.
They are written by server-side apply with an own field manager. The policy owns them, so that they are deleted with the
policy even while no manager runs. Without such a policy nothing is written.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from api.features import FeatureGates
from controllers.policy.controller import StoredPolicies
from kube import clock
from kube.client import Client, PatchType
from kube.errors import Forbidden, Invalid, KubeError, NotFound, raised_at
from kube.interruptions import LOG_EVERY
from kube.model.field import shorten
from kube.model.meta import JSON, PartialObjectMetadata
from kube.model.versions import COMPILED_DEFAULTS, COMPILED_RULES
from kube.options import METADATA_LIST
from kube.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from policy.compiled.enforced import ENFORCED, enforced_objects
from policy.compiled.policy import Circumstances, compiled_name
from policy.conditions import MAX_TEXT, EnforcementState
from policy.exception_types import JobSetPolicyException
from policy.types import JobSetPolicy

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "jobset-policies"
KINDS = (
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
)
"""The kinds of compiled objects. Policies come before their bindings, since a binding alone does nothing."""
CHECK_PERIOD = 0.5
"""Seconds between two checks for changed policies or exceptions. A check sends no request."""
REAPPLY_AFTER = 60.0
"""Seconds after which all objects are applied again, to undo changes by other clients."""
RETRY = 5.0
"""Seconds until the next try after objects could not be applied."""

APPLIED: Final = EnforcementState(True, "Applied", "the API server holds it by itself, too")
NOTHING: Final = EnforcementState(
    False,
    "NothingToApply",
    "it has no rules that deny and no defaults: rules that warn or record are left to the webhooks",
)
GRANT: Final = (
    "grant the rights with `kubectl apply --server-side -k manifests/policy-in-api-server`, or with the Helm chart by"
    " `--set jobSetPolicies.inAPIServer=true`"
)

ObjectKey = tuple[Resource, str]
"""The kind and the name of a compiled object."""


class _TooOldError(KubeError):
    """The API server's version does not support the object."""


class Enforcement:
    """Keeps the compiled objects applied. `trusted`: names of users whose updates of JobSets policies do not check.

    `on_change` is called with the name of each policy whose state has changed.
    """

    def __init__(
        self,
        client: Client,
        source: StoredPolicies,
        gates: FeatureGates,
        trusted: Sequence[str],
        now: Callable[[], datetime] = clock.now,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._source = source
        self._on_change = on_change
        self._states: dict[str, EnforcementState] = {}
        self._gates = gates
        self._trusted = tuple(trusted)
        self._now = now
        self._applied_versions: object = None
        """The versions of the policies and exceptions that were applied last; None if the last try failed."""
        self._applied_bodies: dict[ObjectKey, bytes] | None = None
        """The objects that were applied, encoded. None: not known yet, since an earlier manager may have applied
        some."""
        self._next_reapply = 0.0
        self._last_log_time = -LOG_EVERY

    async def run(self) -> None:
        """Keep the objects of all policies applied, until cancelled."""
        while True:  # noqa: ASYNC110 -- the next apply may be due because of the time alone
            await asyncio.sleep(CHECK_PERIOD if await self.check() else RETRY)

    def state(self, name: str) -> EnforcementState | None:
        """Whether the API server enforces the policy with this name; None if it is not known yet."""
        return self._states.get(name)

    async def check(self) -> bool:
        """Apply all compiled objects if a policy has changed or `REAPPLY_AFTER` is over. Returns False on failure."""
        policies, time = self._source.in_force, asyncio.get_running_loop().time()
        enforced_names = {policy.metadata.name for policy in policies if policy.spec.is_enforced_by_api_server}
        may_have_earlier_objects = bool(policies) and self._applied_bodies is None
        if not (enforced_names or self._applied_bodies or may_have_earlier_objects):
            return True
        exceptions = self._source.all_exceptions if enforced_names else ()
        versions = (
            [(policy.metadata.uid, policy.metadata.generation) for policy in policies],
            [
                (exception.metadata.uid, exception.metadata.resource_version)
                for exception in exceptions
                if exception.spec.policy in enforced_names
            ],
        )
        reapply = bool(enforced_names) and time >= self._next_reapply
        if versions == self._applied_versions and not reapply:
            return True
        has_succeeded = await self._apply(policies, exceptions, reapply=reapply)
        self._applied_versions = versions if has_succeeded else None
        self._next_reapply = time + REAPPLY_AFTER if reapply else self._next_reapply
        return has_succeeded

    async def _apply(
        self, policies: Sequence[JobSetPolicy], exceptions: Sequence[JobSetPolicyException], *, reapply: bool
    ) -> bool:
        """Apply the objects of all policies, and delete all other objects. A policy that fails keeps its objects."""
        circumstances = Circumstances(self._trusted, exceptions, self._now())
        wanted_keys: set[ObjectKey] = set()
        failed_object_names: set[str] = set()
        states: dict[str, EnforcementState] = {}
        try:
            if self._applied_bodies is None:
                self._applied_bodies = dict.fromkeys(await self._earlier_objects(), b"")
        except (KubeError, TimeoutError) as error:
            self._log_failure("policies are not kept in the API server", error)
            self._set_states(policies, dict.fromkeys((policy.metadata.name for policy in policies), _failure(error)))
            return False
        for policy in policies:
            name = policy.metadata.name
            try:
                bodies = list(enforced_objects(policy, policies, circumstances, self._gates))
                wanted_keys.update(map(_key, bodies))
                for body in bodies:
                    await self._store(body, self._applied_bodies, reapply=reapply)
                states[name] = APPLIED if bodies else NOTHING
            except Exception as error:  # noqa: BLE001 -- a bug in one rule must not end the manager
                failed_object_names.add(compiled_name(name))
                states[name] = _failure(error)
                self._log_failure(f"policy {name} is not kept in the API server", error)
        self._set_states(policies, states)
        unwanted_keys = [
            key for key in self._applied_bodies if key not in wanted_keys and key[1] not in failed_object_names
        ]
        for key in unwanted_keys:
            try:
                await self._remove(key)
            except (KubeError, TimeoutError) as error:
                failed_object_names.add(key[1])
                self._log_failure(f"{key[0]} {key[1]} is not removed from the API server", error)
            else:
                del self._applied_bodies[key]
        return not failed_object_names

    def _set_states(self, policies: Sequence[JobSetPolicy], states: dict[str, EnforcementState]) -> None:
        """Set the states of the policies that the API server has to enforce. Calls `on_change` if a reason has changed.

        A state with only another message is not reported, since each try may have another message.
        """
        enforced_names = [policy.metadata.name for policy in policies if policy.spec.is_enforced_by_api_server]
        old_states, self._states = self._states, {name: states[name] for name in enforced_names}
        for name, state in self._states.items():
            if name not in old_states or old_states[name].reason != state.reason:
                self._on_change(name)

    async def _store(self, body: JSON, applied_bodies: dict[ObjectKey, bytes], *, reapply: bool) -> None:
        """Apply one object, unless the same object was applied before and `reapply` is false."""
        resource, name = key = _key(body)
        encoded_body = msgspec.json.encode(body)
        if not reapply and applied_bodies.get(key) == encoded_body:
            return
        try:
            await self._client.patch(
                resource, name, body, patch_type=PatchType.APPLY, field_manager=FIELD_MANAGER, force=True
            )
        except (Invalid, NotFound) as error:
            feature = COMPILED_RULES if resource in KINDS[:2] else COMPILED_DEFAULTS
            if text := feature.shortfall(await self._client.server_version()):
                raise _TooOldError(text) from error
            raise
        applied_bodies[key] = encoded_body

    async def _remove(self, key: ObjectKey) -> None:
        resource, name = key
        try:
            await self._client.delete(resource, name)
        except NotFound:
            return
        log.info("%s %s is removed: its policy does not ask for it any more", resource, name)

    async def _earlier_objects(self) -> list[ObjectKey]:
        """The objects that an earlier manager has applied; empty without the right to list them.

        An earlier manager without this right has applied nothing. The right is granted for all kinds or none.
        """
        keys: list[ObjectKey] = []
        for resource in KINDS:
            pages = self._client.pages(
                resource, type=PartialObjectMetadata, label_selector=f"{ENFORCED}=true", accept=METADATA_LIST
            )
            try:
                keys += [(resource, stored.metadata.name) async for stored in pages]
            except Forbidden:
                return []
            except NotFound:
                continue  # this API server does not serve the kind
        return keys

    def _log_failure(self, sentence: str, error: Exception) -> None:
        """Log a sentence and its error, at most once a minute."""
        time = asyncio.get_running_loop().time()
        if time >= self._last_log_time + LOG_EVERY:
            self._last_log_time = time
            log.warning("%s: %s", sentence, _failure(error).message)


def _failure(error: Exception) -> EnforcementState:
    """The state of a policy that could not be applied because of `error`."""
    if isinstance(error, Forbidden):
        return EnforcementState(False, "Forbidden", f"{error.message}; {GRANT}")
    text = str(error) if isinstance(error, KubeError) else f"{type(error).__name__} at {raised_at(error)}"
    return EnforcementState(False, "NotApplied", shorten(text, MAX_TEXT))


def _key(body: JSON) -> ObjectKey:
    return next(resource for resource in KINDS if resource.kind == body["kind"]), body["metadata"]["name"]
