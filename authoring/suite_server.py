"""Stores the objects of a suite on the local API server of `jobset policy test --server`, and sends its tests.

A test is a dry run. Only the old JobSet of an update is stored. `policy/suites/answers.py` judges the answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from api.keys import NAMESPACE_NAME
from authoring.checks import CheckError
from authoring.suites import LoadedSuite
from controllers.resources import JOBSETS
from kube.client import Client, warning_texts
from kube.clock import now, rfc3339
from kube.errors import AlreadyExists, ApiError
from kube.model.jsontree import dig, items, without_nulls
from kube.model.meta import JSON
from kube.resources import NAMESPACES, Resource
from kube.transport import Request
from policy.namespaces import DEFAULT
from policy.suites import probes
from policy.suites.answers import Answer, answer_of_response
from policy.suites.rounds import Round, namespace_name, standing_exceptions
from policy.suites.types import SuiteNamespace
from webhooks.policy.watches import JOBSET_POLICIES, POLICY_EXCEPTIONS

MAX_PARALLEL_TESTS = 16
"""At most this many tests run at the same time."""
IN_FORCE_TIMEOUT = 60.0
"""Seconds within which stored objects have to be in force, and the audit log has to have its lines."""
POLL_SECONDS = 0.05
"""Seconds between two looks at a condition."""
MAX_TRIES = 5
"""At most this many requests are sent for one test until one of them is judged."""
TIMEOUT = 30.0
"""Seconds for one request."""

NO_VERDICT_CODES = {409, 429, 502, 503, 504}
"""Codes of answers that are no verdicts about the JobSet, such as a conflict or too many requests."""
NO_WEBHOOK = "failed calling webhook"
"""Prefix of the API server's message about a webhook that has not answered in time."""


@dataclass(frozen=True, slots=True)
class SentTest:
    """The answer to the request of a test. The token identifies the request in the audit log."""

    token: str
    code: int
    body: Any
    warnings: list[str]

    @property
    def is_verdict(self) -> bool:
        """Whether the answer is a verdict about the JobSet."""
        return self.code not in NO_VERDICT_CODES and NO_WEBHOOK not in str(dig(self.body, "message"))


@dataclass(slots=True)
class Server:
    """The local API server of a run, with the names of the objects that are stored on it.

    The counts are the numbers of probes, of dry runs and of answered tests.
    """

    client: Client
    audit_log: Path
    probe_count: int = 0
    dry_run_count: int = 0
    answered_count: int = 0
    jobsets: list[tuple[str, str]] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    exceptions: list[tuple[str, str]] = field(default_factory=list)
    admission_policies: list[tuple[Resource, str]] = field(default_factory=list)

    async def prepare(self) -> None:
        """Wait until the API server calls the manager's webhooks."""
        await self._apply_namespace(SuiteNamespace(name=probes.NAME))

        async def is_defaulted() -> bool:
            answer = (await self._send_probe()).body
            return dig(answer, "spec", "replicatedJobs", 0, "template", "spec", "completionMode") is not None

        await _wait_until(is_defaulted, "the webhooks of JobSets")

    async def delete_policies(self) -> None:
        """Delete all stored policies, exceptions and admission policies."""
        if self.admission_policies:
            for resource, name in self.admission_policies:
                await self.client.delete(resource, name)
            self.admission_policies.clear()
            await self._await_admission()
        await self._delete_exceptions()
        for name in self.policies:
            await self.client.delete(JOBSET_POLICIES, name)
        self.policies.clear()

    async def store_round(self, loaded: LoadedSuite, round_: Round) -> None:
        """Store the objects of a round, and wait until they are in force. Raises `CheckError`."""
        if round_.old_jobsets:
            await self.delete_policies()
            await self._await_policies()
        for namespace, name in self.jobsets:
            await self.client.delete(JOBSETS, name, namespace=namespace)
        self.jobsets.clear()
        for namespace_of_round in round_.namespaces.values():
            await self._apply_namespace(namespace_of_round)
        for (namespace, name), old_jobset in round_.old_jobsets.items():
            body = _place_jobset(loaded.jobsets[old_jobset], namespace, name)
            await self._create(JOBSETS, body, f"JobSet {old_jobset}", namespace)
            self.jobsets.append((namespace, name))
        if not self.policies:
            for name, body in loaded.manifests.items():
                await self._create(JOBSET_POLICIES, _with_audit(body), f"policy {name}")
                self.policies.append(name)
        has_deleted = await self._delete_exceptions()
        await self._await_policies()
        if await self._store_exceptions(loaded, round_) or has_deleted:
            await self._await_policies(with_exceptions=True)
        if loaded.admission and not self.admission_policies:
            for body in loaded.admission:
                await self._create(
                    _resource(body), _without_probe_namespace(body), f"{body['kind']} {dig(body, 'metadata', 'name')}"
                )
                self.admission_policies.append((_resource(body), str(dig(body, "metadata", "name"))))
            await self._await_admission()

    async def send_tests(
        self, loaded: LoadedSuite, indexes: Sequence[int], progress: Callable[[int], None]
    ) -> dict[int, Answer]:
        """The API server's answers to the tests with these indexes. `progress` is called with the number of answers."""
        start = self.audit_log.stat().st_size
        limit = asyncio.Semaphore(MAX_PARALLEL_TESTS)

        async def send(index: int) -> SentTest:
            async with limit:
                sent = await self._send_test(loaded, index)
            self.answered_count += 1
            progress(self.answered_count)
            return sent

        answers = await asyncio.gather(*map(send, indexes))
        annotations = await self._annotations(start, frozenset(sent.token for sent in answers))
        return {
            index: answer_of_response(sent.code, sent.body, sent.warnings, annotations[sent.token])
            for index, sent in zip(indexes, answers, strict=True)
        }

    async def _send_test(self, loaded: LoadedSuite, index: int) -> SentTest:
        test = loaded.suite.tests[index]
        namespace = namespace_name(test)
        body = _place_jobset(loaded.jobsets[test.jobset], namespace, test.jobset)
        for _ in range(MAX_TRIES):
            if test.old_jobset:
                stored = await self.client.get(JOBSETS, test.jobset, namespace=namespace)
                identity = {key: stored["metadata"][key] for key in ("resourceVersion", "uid")}
                new = {**body, "metadata": {**body["metadata"], **identity}}
                sent = await self._dry_run("PUT", JOBSETS.path(namespace, test.jobset), new)
            else:
                sent = await self._dry_run("POST", JOBSETS.path(namespace), body)
            if sent.is_verdict:
                return sent
            await asyncio.sleep(1)
        raise CheckError(f"the local API server does not judge {test.jobset}: {dig(sent.body, 'message')}")

    async def _dry_run(self, method: str, path: str, body: JSON) -> SentTest:
        """Send a dry run. Returns its answer, whatever the code."""
        self.dry_run_count += 1
        token = f"{probes.NAME}-{self.dry_run_count}"
        request = Request(
            method=method,
            path=path,
            verb="dry run",
            query=(("dryRun", "All"), ("fieldManager", token)),
            body=msgspec.json.encode(body),
            timeout=TIMEOUT,
            limited=False,
        )
        response = await self.client.transport.send(request)
        answer = msgspec.json.decode(response.body or b"null")
        return SentTest(token, response.status, answer, warning_texts(response.headers))

    async def _annotations(self, start: int, tokens: frozenset[str]) -> Mapping[str, Mapping[str, str]]:
        """The audit annotations of the requests with these tokens. `start`: the offset in the log to begin at."""
        annotations: dict[str, Mapping[str, str]] = {}

        async def is_complete() -> bool:
            with self.audit_log.open("rb") as log:
                log.seek(start)
                lines = [line for line in log if line.endswith(b"\n") and b"fieldManager=" in line]
            for event in map(msgspec.json.decode, lines):
                token = event["requestURI"].partition("fieldManager=")[2].partition("&")[0]
                if token in tokens and event["stage"] == "ResponseComplete":
                    annotations[token] = event.get("annotations") or {}
            return annotations.keys() >= tokens

        await _wait_until(is_complete, "the audit log")

        return annotations

    async def _send_probe(self) -> SentTest:
        return await self._dry_run("POST", JOBSETS.path(probes.NAME), probes.jobset(JOBSETS.api_version))

    async def _await_policies(self, *, with_exceptions: bool = False) -> None:
        """Wait until the webhooks know the stored policies and namespaces; `with_exceptions`: also the exceptions."""
        self.probe_count += 1
        number, name = self.probe_count, probes.name(self.probe_count)
        await self._create(JOBSET_POLICIES, probes.policy(number), name)
        await self._apply_namespace(SuiteNamespace(name=probes.NAME, labels={probes.LABEL: str(number)}))

        async def refusals() -> int:
            causes = items((await self._send_probe()).body, "details", "causes")
            return sum(f"policy {name}" in cause["message"] for cause in causes)

        async def is_known() -> bool:
            return await refusals() > 0

        async def is_excepted() -> bool:
            return await refusals() == 1

        await _wait_until(is_known, "the policies")
        if with_exceptions:
            body = probes.exception(number, rfc3339(now() + probes.EXCEPTION_LIFETIME))
            await self._create(POLICY_EXCEPTIONS, body, name, probes.NAME)
            await _wait_until(is_excepted, "the exceptions")
            await self.client.delete(POLICY_EXCEPTIONS, name, namespace=probes.NAME)
        await self.client.delete(JOBSET_POLICIES, name)

    async def _await_admission(self) -> None:
        """Wait until the API server knows the stored admission policies."""
        self.probe_count += 1
        name, bodies = probes.name(self.probe_count), probes.admission(self.probe_count)
        for body in bodies:
            await self._create(_resource(body), body, name)

        async def has_warned() -> bool:
            return any(f"'{name}'" in text for text in (await self._send_probe()).warnings)

        await _wait_until(has_warned, "the admission policies")
        for body in reversed(bodies):
            await self.client.delete(_resource(body), name)

    async def _store_exceptions(self, loaded: LoadedSuite, round_: Round) -> bool:
        """Store the exceptions that count in a round. Returns whether there are any."""
        head = {"apiVersion": POLICY_EXCEPTIONS.api_version, "kind": POLICY_EXCEPTIONS.kind}
        for i, (namespace, exception, ends) in enumerate(standing_exceptions(loaded, round_, now())):
            name = f"{exception.metadata.name}-{i}"
            spec = without_nulls(msgspec.to_builtins(exception.spec)) | {"expiresAt": rfc3339(ends)}
            body = {**head, "metadata": {"name": name}, "spec": spec}
            await self._create(POLICY_EXCEPTIONS, body, f"exception {exception.metadata.name}", namespace)
            self.exceptions.append((namespace, name))
        return bool(self.exceptions)

    async def _delete_exceptions(self) -> bool:
        """Delete the stored exceptions. Returns whether there were any."""
        had_exceptions = bool(self.exceptions)
        for namespace, name in self.exceptions:
            await self.client.delete(POLICY_EXCEPTIONS, name, namespace=namespace)
        self.exceptions.clear()
        return had_exceptions

    async def _create(self, resource: Resource, body: JSON, subject: str, namespace: str | None = None) -> None:
        """Create an object. Tries again while a webhook does not answer. `subject`: the object in messages."""

        async def is_accepted() -> bool:
            try:
                await self.client.create(resource, body, namespace=namespace, timeout=TIMEOUT)
            except ApiError as error:
                if NO_WEBHOOK not in error.message:
                    raise CheckError(f"the local API server does not take {subject}: {error.message}") from error
                return False
            return True

        await _wait_until(is_accepted, f"an answer about {subject}")

    async def _apply_namespace(self, namespace: SuiteNamespace) -> None:
        """Create or replace a namespace with these labels and annotations."""
        name = namespace.name or DEFAULT
        fields: JSON = {"labels": dict(namespace.labels), "annotations": dict(namespace.annotations)}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **fields}}
        try:
            await self.client.create(NAMESPACES, body)
        except AlreadyExists:
            stored = await self.client.get(NAMESPACES, name)
            await self.client.replace(NAMESPACES, name, {**stored, "metadata": {**stored["metadata"], **fields}})
        except ApiError as error:
            raise CheckError(f"the local API server does not take namespace {name}: {error.message}") from error


def _place_jobset(manifest: JSON, namespace: str, name: str) -> JSON:
    """The body of a request with a JobSet of a suite, under this namespace and name."""
    fields = {key: value for key, value in without_nulls(manifest).items() if key != "status"}
    return {**fields, "metadata": {**(fields.get("metadata") or {}), "name": name, "namespace": namespace}}


def _with_audit(manifest: JSON) -> JSON:
    """The manifest of a policy with the action Audit added, so that violations of all rules are recorded."""
    spec = without_nulls(manifest["spec"])
    actions = spec.get("validationActions") or ["Warn"]
    return {**manifest, "spec": {**spec, "validationActions": list(dict.fromkeys([*actions, "Audit"]))}}


def _without_probe_namespace(body: JSON) -> JSON:
    """The body of an object. A binding is changed so that it excludes the namespace of the probes."""
    if not body["kind"].endswith("Binding"):
        return body
    exclusion = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": [probes.NAME]}
    matched = dig(body, "spec", "matchResources") or {}
    selector = matched.get("namespaceSelector") or {}
    selector = {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), exclusion]}
    return {**body, "spec": {**body["spec"], "matchResources": {**matched, "namespaceSelector": selector}}}


def _resource(body: JSON) -> Resource:
    """The resource of an admission policy or a binding."""
    group, _, version = str(body.get("apiVersion")).rpartition("/")
    kind = str(body["kind"])
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return Resource(group, version, kind, plural.lower(), namespaced=False)


async def _wait_until(condition: Callable[[], Awaitable[bool]], subject: str) -> None:
    """Wait until `condition` returns True. Raises `CheckError` after `IN_FORCE_TIMEOUT`, with `subject` in its text."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + IN_FORCE_TIMEOUT
    while not await condition():
        if loop.time() > deadline:
            raise CheckError(f"the local API server: not within {IN_FORCE_TIMEOUT:g} s: {subject}")
        await asyncio.sleep(POLL_SECONDS)
