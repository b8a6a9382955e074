"""Issues certificates, which all replicas share through one Secret (docs/reference/manager.md#certificates).

Every replica runs this code. The Secret's resourceVersion lets only the first renewal succeed, and the other replicas
use its result. A new CA is stored in the webhook configurations, beside the old CA, before a certificate
signed by it is served, so that no review is lost.

Secret and webhook configurations are written by PUT of the JSON that was just read. So no field is lost, a write in
between is a conflict, and the rights with which the Go JobSet is installed (update, no patch) suffice.
"""

import asyncio
import base64
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime

from certs.bundles import injector_annotation, names_service, trusts
from certs.child_process import FIRST_PAUSE, call_in_process, retry_pause
from certs.material import Decision, KeyAlgorithm, Material, Renewal, material_of, secret_data
from certs.remedies import APPLY_AGAIN, APPLY_AGAIN_WITHOUT_SERVICE, create_secret_command, injector_remedy
from certs.source import LiveContext
from certs.validity import der_certificates, not_after
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
    """A webhook configuration lacks the CA, so certificates of this CA cannot be served yet."""


class _Watched(Base, frozen=True, kw_only=True):
    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class CertOptions:
    """The Secret of the certificates, their hosts, and the webhook configurations.

    `hosts` are the names and addresses under which the API server calls the manager. `mutating` and `validating` name
    the webhook configurations that get the CA. `key_algorithm` is for new keys; existing keys stay. `check_seconds` is
    the time between two checks, and `retry_seconds` the time after a failed check. `settle_seconds` is the time until
    every API server uses a new CA. `is_local`: only this machine can reach the server, so no Service leads to it.
    """

    namespace: str
    secret: str
    hosts: tuple[str, ...]
    mutating: str = "jobset-mutating-webhook-configuration"
    validating: str = "jobset-validating-webhook-configuration"
    key_algorithm: KeyAlgorithm = "ECDSA"
    check_seconds: float = 12 * 3600
    retry_seconds: float = FIRST_PAUSE
    settle_seconds: float = 10
    is_local: bool = False

    @property
    def secret_remedy(self) -> str:
        """The fix if the right to the Secret is missing."""
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
    """The names by which the API server calls a Service, followed by the other hosts of the webhook."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", *extra)


class CertManager:
    """A `certs.source.CertificateSource` that issues its certificate and keeps it in a Secret."""

    def __init__(
        self, client: Client, live: LiveContext, options: CertOptions, *, clock: Callable[[], datetime] = now
    ) -> None:
        self.ready = asyncio.Event()
        self.problem = "certificates are not ready"
        self._client = client
        self._live = live
        self._options = options
        self._clock = clock
        self._changed = asyncio.Event()
        self._served_authorities = b""
        self._last_valid_check: tuple[Material, bytes, date] | None = None
        self._further_configurations: set[tuple[Resource, str]] = set()
        self._failed_attempts = 0
        self._webhook_counts: dict[str, int] = {}
        self._service_configurations: set[str] = set()

    async def run(self) -> None:
        """Check certificates at the start, every 12 h, and whenever the Secret or a webhook configuration changes."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                informer.on_event(lambda *_: self._changed.set())
                group.create_task(informer.run())
            while True:
                self._changed.clear()
                seconds = await self._check_once()
                try:
                    async with asyncio.timeout(seconds):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    async def maintain_bundle(self, resource: Resource, name: str) -> None:
        """Store the CA in one more webhook configuration, until cancelled. Errors are only logged."""
        informer = self._configuration_informer(resource, name)
        informer.on_event(lambda *_: self._changed.set())
        self._further_configurations.add((resource, name))
        try:
            await informer.run()
        finally:
            self._further_configurations.discard((resource, name))

    async def unreachable_service(self) -> str | None:
        """For readiness: the fault if the API server calls a Service, which leads to another manager; None if not."""
        if not (self._options.is_local and self._service_configurations):
            return None
        names = ", ".join(sorted(self._service_configurations))
        fault = f"the API server calls another manager: {names} name a Service, which leads elsewhere"
        return f"{fault}; {APPLY_AGAIN_WITHOUT_SERVICE}"

    async def _check_once(self) -> float:
        """Check once. Returns the seconds after which to check again unless something changes.

        After an error of the API server the pause stays the same. After a failure to make certificates the pause grows,
        since each attempt starts a process.
        """
        try:
            await self.check()
        except (KubeError, ValueError) as error:
            self._live.observer.on_failure()
            self._report_problem(f"webhook certificates: {error}")
            self._failed_attempts = self._failed_attempts + 1 if isinstance(error, ValueError) else 0
            return retry_pause(self._failed_attempts or 1, self._options.retry_seconds)
        self.problem, self._failed_attempts = "", 0
        self.ready.set()
        return self._options.check_seconds

    def _report_problem(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem

    async def check(self) -> None:
        """Renew certificates if needed, store the CA in the configurations, serve the certificate. Idempotent.

        Raises `KubeError` and `CertificateError`.
        """
        material = await self._valid_material()
        authority = der_certificates(material.authorities)[0]
        bundle = base64.b64encode(material.authorities).decode()
        for resource, name in self._options.configurations:
            await self._store_bundle(resource, name, bundle, authority)
        for resource, name in tuple(self._further_configurations):
            try:
                await self._store_bundle(resource, name, bundle, authority)
            except KubeError as error:
                log.warning("%s %s: %s", resource.kind, name, error)
        if not self._live.is_serving(material.certificate, material.key):
            if self._live.certificate and der_certificates(self._served_authorities)[0] != authority:
                await asyncio.sleep(self._options.settle_seconds)
                await self._check_trusted(authority)
            self._live.install(material.certificate, material.key)
            log.info("serving a certificate valid until %s", rfc3339(not_after(material.certificate)))
        self._served_authorities = material.authorities
        self._live.observer.on_authority(not_after(material.authorities).timestamp())

    async def _valid_material(self) -> Material:
        """The content of the Secret, which is renewed and stored if it is not valid."""
        while True:
            secret = await self._read_secret()
            material, now = material_of(secret), self._clock()
            # The served bundle has no further CA if the Secret has the same bundle.
            served_bundle = self._served_authorities if self._served_authorities != material.authorities else b""
            check_key = material, served_bundle, now.date()
            if check_key == self._last_valid_check:
                return material
            arguments = material, self._options.hosts, now, self._options.key_algorithm, served_bundle
            result: tuple[Decision, Material] = await asyncio.to_thread(
                call_in_process, "certs.renewal", "decide_and_renew_now", *arguments
            )
            decision, renewed = result
            if decision.renewal is Renewal.NOTHING:
                self._last_valid_check = check_key
                return material
            body = {**secret, "data": {**(secret.get("data") or {}), **secret_data(renewed)}}
            try:
                await self._client.replace(SECRETS, self._options.secret, body, namespace=self._options.namespace)
            except Conflict:
                continue
            log.info("renewed the %s: %s", decision.renewal.value, decision.reason)
            return renewed

    async def _read_secret(self) -> JSON:
        secret_key = (self._options.namespace, self._options.secret)
        try:
            return await self._client.get(SECRETS, secret_key[1], namespace=secret_key[0])
        except Forbidden as error:
            raise MissingSecretError(f"{error}; {self._options.secret_remedy}") from error
        except NotFound as error:
            raise MissingSecretError(
                f"Secret {'/'.join(secret_key)} does not exist and is not ours to create:"
                f" {create_secret_command(*secret_key)} makes it, and the manager fills it;"
                " or set internalCertManagement.enable to false and give webhook.certDir"
            ) from error

    async def _store_bundle(self, resource: Resource, name: str, bundle: str, authority: bytes) -> None:
        """Store the bundle in one configuration, unless another program writes it."""
        while True:
            try:
                config = await self._client.get(resource, name)
            except NotFound:
                remedy = APPLY_AGAIN_WITHOUT_SERVICE if self._options.is_local else APPLY_AGAIN
                self._report_registration(resource, name, 0, "does not exist", remedy)
                return
            self._report_service(name, config)
            webhooks = config.get("webhooks") or []
            self._report_registration(
                resource, name, len(webhooks), "lists no webhook", "`jobset webhooks on` puts them back"
            )
            if injector_annotation(config):
                self._require_trust(resource, config, authority)
                return
            if all(hook["clientConfig"].get("caBundle") == bundle for hook in webhooks):
                return
            new_webhooks = [{**hook, "clientConfig": {**hook["clientConfig"], "caBundle": bundle}} for hook in webhooks]
            try:
                await self._client.replace(resource, name, {**config, "webhooks": new_webhooks})
            except (Conflict, NotFound):
                continue
            log.info("stored the CA in %s", name)
            return

    def _report_registration(self, resource: Resource, name: str, webhooks: int, fault: str, remedy: str) -> None:
        """Log when a configuration no longer lists webhooks, and when it lists webhooks again."""
        count_before = self._webhook_counts.get(name)
        if webhooks == count_before:
            return
        self._webhook_counts[name] = webhooks
        self._live.observer.on_registration(name, webhooks)
        if not webhooks:
            text = "%s %s %s: the API server calls no webhook by it, nothing is checked or defaulted there; %s"
            log.warning(text, resource.kind, name, fault, remedy)
        elif count_before == 0:
            log.info("%s %s lists %d webhooks again", resource.kind, name, webhooks)

    def _report_service(self, name: str, config: JSON) -> None:
        """Remember whether a configuration names a Service. Log it once if no Service leads to this manager."""
        if not names_service(config):
            self._service_configurations.discard(name)
        elif name not in self._service_configurations:
            self._service_configurations.add(name)
            if self._options.is_local:
                log.warning(
                    "%s names a Service, which leads elsewhere than to this manager; %s",
                    name,
                    APPLY_AGAIN_WITHOUT_SERVICE,
                )

    async def _check_trusted(self, authority: bytes) -> None:
        """Raises `NotTrustedError` if a configuration has lost the CA since it was stored there."""
        for resource, name in self._options.configurations:
            with contextlib.suppress(NotFound):
                self._require_trust(resource, await self._client.get(resource, name), authority)

    def _require_trust(self, resource: Resource, config: JSON, authority: bytes) -> None:
        if not trusts(config, authority):
            name, annotation = config["metadata"]["name"], injector_annotation(config)
            remedy = annotation and f"; {injector_remedy(resource.kind, name, annotation)}"
            raise NotTrustedError(
                f"{resource.kind} {name}: caBundle, written by {annotation or 'the manager'}, lacks the CA in Secret"
                f" {self._options.namespace}/{self._options.secret}: its certificate is not served yet{remedy}"
            )

    def _informers(self) -> list[Informer[_Watched]]:
        options = self._options
        secret_informer: Informer[_Watched] = Informer(
            self._client,
            SECRETS,
            _Watched,
            namespace=options.namespace,
            field_selector=f"metadata.name={options.secret}",
            remedy=options.secret_remedy,
        )
        return [secret_informer, *(self._configuration_informer(*each) for each in options.configurations)]

    def _configuration_informer(self, resource: Resource, name: str) -> Informer[_Watched]:
        return Informer(self._client, resource, _Watched, field_selector=f"metadata.name={name}")
