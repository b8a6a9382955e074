"""Certificates of our own making, shared by all replicas through one Secret (docs/reference/manager.md#certificates).

Every replica runs this. The first renewal succeeds by the Secret's resourceVersion; the other replicas use its result.
A new CA is stored in the webhook configurations, beside the old one, before a certificate signed by it is served, so
that no review is lost.

Secret and webhook configurations are written by PUT of the JSON that was just read: no field is lost, a write in
between is a conflict, and the rights that the Go JobSet is installed with (update, no patch) suffice.
"""

import asyncio
import base64
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime

from certs.apart import RETRY_AFTER, call, pause
from certs.bundles import injector, names_service, trusts
from certs.material import Decision, KeyAlgorithm, Material, Renewal, data_of, material_of
from certs.remedies import APPLY_AGAIN, NOT_BY_SERVICE, make_secret, write_by_manager
from certs.source import Live
from certs.validity import blocks, not_after
from kube.client import Client
from kube.clock import now, rfc3339
from kube.errors import Conflict, Forbidden, KubeError, NotFound
from kube.informer import Informer
from kube.model.meta import JSON, Base, ObjectMeta
from kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource

log = logging.getLogger(__name__)


class MissingSecretError(KubeError):
    """The Secret for the certificates was not installed, or the right to it is missing."""


class NotTrustedError(KubeError):
    """A webhook configuration lacks the CA: its certificates cannot be served yet."""


class _Watched(Base, frozen=True, kw_only=True):
    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class CertOptions:
    """Where certificates are stored, and their hosts. Times in seconds.

    `hosts` are the names and addresses under which the API server calls us. `mutating` and `validating` name the
    webhook configurations that get the CA. `key_algorithm` is for new keys: existing ones stay. `settle`: how long a
    new CA may take until every API server uses it. `local`: only this machine can reach the server, so no Service leads
    to it.
    """

    namespace: str
    secret: str
    hosts: tuple[str, ...]
    mutating: str = "jobset-mutating-webhook-configuration"
    validating: str = "jobset-validating-webhook-configuration"
    key_algorithm: KeyAlgorithm = "ECDSA"
    check_every: float = 12 * 3600
    retry_after: float = RETRY_AFTER
    settle: float = 10
    local: bool = False

    @property
    def secret_remedy(self) -> str:
        """What to do if the right to the Secret is missing."""
        return (
            f"have the Role jobset-manager-secrets-role of namespace {self.namespace} name Secret {self.secret}"
            " (docs/manager-rights.md)"
        )

    @property
    def configurations(self) -> tuple[tuple[Resource, str], ...]:
        return (
            (MUTATING_WEBHOOK_CONFIGURATIONS, self.mutating),
            (VALIDATING_WEBHOOK_CONFIGURATIONS, self.validating),
        )


def service_hosts(service: str, namespace: str, *extra: str) -> tuple[str, ...]:
    """Names of a Service as the API server dials it, and other hosts of the webhook."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", *extra)


class CertManager:
    """A `certs.source.CertificateSource` that issues its certificate and keeps it in a Secret."""

    def __init__(
        self, client: Client, live: Live, options: CertOptions, *, clock: Callable[[], datetime] = now
    ) -> None:
        self.ready = asyncio.Event()
        self.problem = "certificates are not ready"
        self._client = client
        self._live = live
        self._options = options
        self._clock = clock
        self._changed = asyncio.Event()
        self._served_authorities = b""
        self._good: tuple[Material, bytes, date] | None = None
        self._more: set[tuple[Resource, str]] = set()
        self._bad_attempts = 0
        self._registered: dict[str, int] = {}
        self._by_service: set[str] = set()

    async def run(self) -> None:
        """Check at the start, every 12 h and whenever the Secret or a webhook configuration changes."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                informer.on_event(lambda *_: self._changed.set())
                group.create_task(informer.run())
            while True:
                self._changed.clear()
                seconds = await self._attempt()
                try:
                    async with asyncio.timeout(seconds):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    async def look_after(self, resource: Resource, name: str) -> None:
        """Store the CA in one more webhook configuration, until cancelled. Its faults are only logged."""
        more: Informer[_Watched] = Informer(self._client, resource, _Watched, field_selector=f"metadata.name={name}")
        more.on_event(lambda *_: self._changed.set())
        self._more.add((resource, name))
        try:
            await more.run()
        finally:
            self._more.discard((resource, name))

    async def unreachable_service(self) -> str | None:
        """A check of readiness: fails while the API server has to call a Service, and none leads here."""
        if not (self._options.local and self._by_service):
            return None
        names = ", ".join(sorted(self._by_service))
        return f"the API server calls another manager: {names} name a Service, which leads elsewhere; {NOT_BY_SERVICE}"

    async def _attempt(self) -> float:
        """One check; the seconds after which to check again unless something changes.

        After a refusal by the API server the pause stays the same. After a failure to make certificates it grows, since
        each attempt starts a process.
        """
        try:
            await self.check()
        except (KubeError, ValueError) as error:
            self._live.observer.on_failure()
            self._complain(f"webhook certificates: {error}")
            self._bad_attempts = self._bad_attempts + 1 if isinstance(error, ValueError) else 0
            return pause(self._bad_attempts or 1, self._options.retry_after)
        self.problem, self._bad_attempts = "", 0
        self.ready.set()
        return self._options.check_every

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem

    async def check(self) -> None:
        """Renew what is due, store the CA in the configurations, serve the pair. Idempotent; raises API errors."""
        material = await self._current()
        authority = blocks(material.authorities)[0]
        bundle = base64.b64encode(material.authorities).decode()
        for resource, name in self._options.configurations:
            await self._inject(resource, name, bundle, authority)
        for resource, name in tuple(self._more):
            try:
                await self._inject(resource, name, bundle, authority)
            except KubeError as error:
                log.warning("%s %s: %s", resource.kind, name, error)
        if not self._live.serves(material.certificate, material.key):
            if self._live.certificate and blocks(self._served_authorities)[0] != authority:
                await asyncio.sleep(self._options.settle)
                await self._check_trusted(authority)
            self._live.install(material.certificate, material.key)
            log.info("serving a certificate valid until %s", rfc3339(not_after(material.certificate)))
        self._served_authorities = material.authorities
        self._live.observer.on_authority(not_after(material.authorities).timestamp())

    async def _current(self) -> Material:
        """The valid content of the Secret; renewed and stored if it was not valid."""
        while True:
            secret = await self._secret()
            material, now = material_of(secret), self._clock()
            # Not needed if the Secret has the same bundle.
            served = self._served_authorities if self._served_authorities != material.authorities else b""
            checked = material, served, now.date()
            if checked == self._good:
                return material
            task = material, self._options.hosts, now, self._options.key_algorithm, served
            done: tuple[Decision, Material] = await asyncio.to_thread(call, "certs.renewal", "heal_now", *task)
            decision, renewed = done
            if decision.renewal is Renewal.NOTHING:
                self._good = checked
                return material
            body = {**secret, "data": {**(secret.get("data") or {}), **data_of(renewed)}}
            try:
                await self._client.replace(SECRETS, self._options.secret, body, namespace=self._options.namespace)
            except Conflict:
                continue
            log.info("renewed the %s: %s", decision.renewal.value, decision.reason)
            return renewed

    async def _secret(self) -> JSON:
        secret_key = (self._options.namespace, self._options.secret)
        try:
            return await self._client.get(SECRETS, secret_key[1], namespace=secret_key[0])
        except Forbidden as error:
            raise MissingSecretError(f"{error}; {self._options.secret_remedy}") from error
        except NotFound as error:
            raise MissingSecretError(
                f"Secret {'/'.join(secret_key)} does not exist and is not ours to create: {make_secret(*secret_key)}"
                " makes it, and the manager fills it;"
                " or set internalCertManagement.enable to false and give webhook.certDir"
            ) from error

    async def _inject(self, resource: Resource, name: str, bundle: str, authority: bytes) -> None:
        """Store the bundle in one configuration, unless another program writes it."""
        while True:
            try:
                config = await self._client.get(resource, name)
            except NotFound:
                remedy = NOT_BY_SERVICE if self._options.local else APPLY_AGAIN
                self._report_registration(resource, name, 0, "does not exist", remedy)
                return
            self._report_service(name, config)
            webhooks = config.get("webhooks") or []
            self._report_registration(
                resource, name, len(webhooks), "lists no webhook", "`jobset webhooks on` puts them back"
            )
            if injector(config):
                self._demand_trust(resource, config, authority)
                return
            if all(hook["clientConfig"].get("caBundle") == bundle for hook in webhooks):
                return
            changed = [{**hook, "clientConfig": {**hook["clientConfig"], "caBundle": bundle}} for hook in webhooks]
            try:
                await self._client.replace(resource, name, {**config, "webhooks": changed})
            except (Conflict, NotFound):
                continue
            log.info("stored the CA in %s", name)
            return

    def _report_registration(self, resource: Resource, name: str, webhooks: int, fault: str, remedy: str) -> None:
        """Log once that a configuration lists no webhooks, and once that it does again."""
        before = self._registered.get(name)
        if webhooks == before:
            return
        self._registered[name] = webhooks
        self._live.observer.on_registration(name, webhooks)
        if not webhooks:
            text = "%s %s %s: the API server calls no webhook by it, nothing is checked or defaulted there; %s"
            log.warning(text, resource.kind, name, fault, remedy)
        elif before == 0:
            log.info("%s %s lists %d webhooks again", resource.kind, name, webhooks)

    def _report_service(self, name: str, config: JSON) -> None:
        """Remember whether a configuration names a Service; log it once if none leads here."""
        if not names_service(config):
            self._by_service.discard(name)
        elif name not in self._by_service:
            self._by_service.add(name)
            if self._options.local:
                log.warning("%s names a Service, which leads elsewhere than to this manager; %s", name, NOT_BY_SERVICE)

    async def _check_trusted(self, authority: bytes) -> None:
        """Raises `NotTrustedError` if a configuration has lost the CA since it was stored there."""
        for resource, name in self._options.configurations:
            with contextlib.suppress(NotFound):
                self._demand_trust(resource, await self._client.get(resource, name), authority)

    def _demand_trust(self, resource: Resource, config: JSON, authority: bytes) -> None:
        if not trusts(config, authority):
            name, annotation = config["metadata"]["name"], injector(config)
            remedy = annotation and f"; {write_by_manager(resource.kind, name, annotation)}"
            raise NotTrustedError(
                f"{resource.kind} {name}: caBundle, written by {annotation or 'the manager'}, lacks the CA in Secret"
                f" {self._options.namespace}/{self._options.secret}: its certificate is not served yet{remedy}"
            )

    def _informers(self) -> list[Informer[_Watched]]:
        options = self._options
        secret = f"metadata.name={options.secret}"
        watched: Informer[_Watched] = Informer(
            self._client,
            SECRETS,
            _Watched,
            namespace=options.namespace,
            field_selector=secret,
            remedy=options.secret_remedy,
        )
        informers = [watched]
        for resource, name in options.configurations:
            informers.append(Informer(self._client, resource, _Watched, field_selector=f"metadata.name={name}"))
        return informers
