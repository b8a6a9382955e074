"""Dry runs of the children of a JobSet (`dryRun=All`).

`cluster.verdict` interprets the answers, `cluster.faults` converts them into findings about the JobSet.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from api import keys
from api.batch import OwnedObject
from api.children import build_service, build_volume_claim
from api.jobset import JobSet
from kube.client import Client
from kube.errors import ApiError, BadRequest, NotFound
from kube.model.expiring import Expiring
from kube.model.field import FieldError, Parts
from kube.model.jsontree import set_in
from kube.model.meta import JSON, Owner
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from webhooks.jobset.cluster.children import ChildJob, service_name_path
from webhooks.jobset.cluster.claims import Claim
from webhooks.jobset.cluster.decode import decode_problem
from webhooks.jobset.cluster.faults import REFUSED, claim_template_faults, decode_faults, job_faults, service_faults
from webhooks.jobset.cluster.known_errors import without_consequences
from webhooks.jobset.cluster.needs import Need
from webhooks.jobset.cluster.questions import NotAskedError
from webhooks.jobset.cluster.verdict import (
    DOCS,
    Verdict,
    describe_error,
    may_want_owner,
    misses_owner,
    verdict,
    warning,
)

DECODE_ROUNDS = 8
"""The most times that a Job which cannot be decoded is sent, each time without the refused values."""

OWNERLESS_SECONDS = 600.0
"""Seconds for which Jobs of a namespace are sent without their owner, after a webhook has looked for the owner."""
MAX_NAMESPACES = 1024
"""The most namespaces whose Jobs are sent without their owner."""

API_WARNS = warning(
    "child-warning",
    "{text}",
    source="warning of the API server about a child",
)
JOB_EXISTS = warning(
    "child-job-exists",
    "Job {name} exists and {whose}",
    "rename or delete it",
    source=f"{DOCS}, defect 11",
)
SERVICE_SHARED = warning(
    "service-shared",
    "Service {name} belongs to JobSet {owner}: it selects only that set's pods",
    "choose another name",
    source=f"{DOCS}, defect 23",
)
SERVICE_FOREIGN = warning(
    "service-foreign",
    "Service {name} exists and is not this JobSet's: pods get DNS names only if it selects them",
    "delete it, or set spec.network.subdomain to another name",
    source=f"{DOCS}, defect 11",
)


@dataclass(frozen=True, slots=True)
class Request:
    """The JobSet of one review, and what its checks need.

    `client` sends requests about the JobSet, which is `raw` as JSON and `js` as a record. `deadline`: when the answer
    is due, in seconds of the event loop. `is_ours`: whether our controller will create the children. `is_stored`:
    whether the set is stored already and may have Jobs. `needs`: objects that the pods of a new set need by name.
    """

    client: Client
    raw: JSON
    js: JobSet
    deadline: float
    is_ours: bool
    is_stored: bool = False
    needs: tuple[Need, ...] = ()

    @property
    def namespace(self) -> str:
        return self.js.metadata.namespace


class DryRuns:
    """Sends dry runs. Its methods return findings about the JobSet, and raise if there is no answer.

    `timeout`: seconds for one request. `has_author_rights`: requests have the rights of the JobSet's author, so
    findings may name the owner of an object.

    Another webhook may look for the owner of a Job, as Kueue's does, and refuse the Job because its JobSet is not
    stored yet. That Job is sent again without an owner, and so are all Jobs of its namespace for `OWNERLESS_SECONDS`.

    Remembered: these namespaces, 1,024 at most. If a namespace is forgotten, the dry run of one Job is sent twice. If a
    namespace is remembered that has no such webhook any more, the verdict of a policy about owners is missing.
    """

    def __init__(self, timeout: float, *, has_author_rights: bool) -> None:
        self._timeout = timeout
        self._has_author_rights = has_author_rights
        self._ownerless_namespaces: Expiring[str, bool] = Expiring(MAX_NAMESPACES)

    async def job_findings(self, request: Request, child: ChildJob) -> list[FieldError]:
        """Findings about a Job. Values that the API server cannot decode are removed, so that it checks the rest."""
        body = child.body
        findings: list[FieldError] = []
        for _ in range(DECODE_ROUNDS):
            warning_texts: list[str] = []
            try:
                error = await self._job_error(request, body, warning_texts)
            except NotAskedError:
                if findings:
                    break
                raise
            problem = decode_problem(body, error.message) if isinstance(error, BadRequest) else None
            if problem is None:
                warnings = [API_WARNS.at(child.path, text=text) for text in warning_texts]
                last_findings = warnings if error is None else await self._findings_of_job_error(request, child, error)
                return [*findings, *without_consequences(last_findings, findings, request.js)]
            findings += decode_faults(child, problem)
            if not problem.paths:
                break
            body = _without_values(body, problem.paths)
        return findings

    async def _job_error(self, request: Request, body: JSON, warning_texts: list[str]) -> ApiError | None:
        """The error of the dry run; None if the Job may be created. `warning_texts` gets the warnings."""
        if request.is_stored:
            return await self._dry_run_error(request, JOBS, body, warning_texts)
        clock = asyncio.get_running_loop().time
        if not self._ownerless_namespaces.get(request.namespace, clock()):
            warnings: list[str] = []
            error = await self._dry_run_error(request, JOBS, body, warnings)
            if error is None or not misses_owner(error, request.js.metadata.name):
                warning_texts += warnings
                return error
            self._ownerless_namespaces.put(request.namespace, True, clock() + OWNERLESS_SECONDS)
        ownerless_body = {**body, "metadata": {**body["metadata"], "ownerReferences": []}}
        error = await self._dry_run_error(request, JOBS, ownerless_body, warning_texts)
        # A policy that demands an owner allows the Jobs of the controller, which have an owner.
        return None if error is not None and may_want_owner(error) else error

    async def _findings_of_job_error(self, request: Request, child: ChildJob, error: ApiError) -> list[FieldError]:
        match verdict(error, JOBS):
            case Verdict.FAULTY:
                return job_faults(child, error.causes)
            case Verdict.REFUSED:
                return [REFUSED.at(child.path, what="Jobs", why=describe_error(error, self._timeout))]
            case Verdict.EXISTS if request.is_stored:
                return []  # most likely a Job of this set; the controller reports any other Job
            case Verdict.EXISTS:
                owner = await self._conflicting_owner(JOBS, child.name, request)
                relation = f"belongs to {owner}" if self._has_author_rights else "is not this JobSet's"
                path = child.path.at("name")
                return [JOB_EXISTS.at(path, child.name, name=child.name, whose=relation)] if owner else []
            case Verdict.UNKNOWN:
                raise error

    async def service_findings(self, request: Request) -> list[FieldError]:
        body = build_service(request.js)
        error = await self._dry_run_error(request, SERVICES, body)
        if error is None:
            return []
        path, name = service_name_path(request.js), body["metadata"]["name"]
        match verdict(error, SERVICES):
            case Verdict.FAULTY:
                return service_faults(request.raw, request.js, error.causes)
            case Verdict.REFUSED:
                return [REFUSED.at(path, what="its Service", why=describe_error(error, self._timeout))]
            case Verdict.EXISTS:
                owner = await self._conflicting_owner(SERVICES, name, request)
                jobset = owner.removeprefix(f"{keys.KIND} ")
                rule = SERVICE_SHARED if self._has_author_rights and jobset != owner else SERVICE_FOREIGN
                return [rule.at(path, name, name=name, owner=jobset)] if owner else []
            case Verdict.UNKNOWN:
                raise error

    async def claim_findings(self, request: Request, claim: Claim) -> list[FieldError]:
        body = build_volume_claim(request.js, claim.policy, claim.template)
        error = await self._dry_run_error(request, PERSISTENT_VOLUME_CLAIMS, body)
        if error is None:
            return []
        match verdict(error, PERSISTENT_VOLUME_CLAIMS):
            case Verdict.FAULTY:
                return claim_template_faults(claim, error.causes)
            case Verdict.REFUSED:
                return [REFUSED.at(claim.path, what="the claim", why=describe_error(error, self._timeout))]
            case Verdict.EXISTS:
                return []
            case Verdict.UNKNOWN:
                raise error

    async def _dry_run_error(
        self, request: Request, resource: Resource, body: JSON, warnings: list[str] | None = None
    ) -> ApiError | None:
        """The error of the dry run; None if the object may be created. Raises if there is no answer."""
        try:
            await request.client.create(
                resource,
                body,
                dry_run=True,
                type=msgspec.Raw,
                namespace=request.namespace,
                timeout=self._timeout,
                warnings=[] if warnings is None else warnings,
            )
        except ApiError as error:
            return error
        return None

    async def _conflicting_owner(self, resource: Resource, name: str, request: Request) -> str:
        """Kind and name of the owner of an existing object; empty if the object is no conflict.

        An object is no conflict if it was deleted meanwhile, belongs to this JobSet, or belongs to an earlier JobSet of
        this name and will be garbage-collected.
        """
        try:
            existing = await request.client.get(resource, name, namespace=request.namespace, type=OwnedObject)
        except NotFound:
            return ""
        controller, owner = existing.metadata.controller(), existing.metadata.owner
        if controller is None:
            return "nobody"
        meta = request.js.metadata
        return "" if controller.uid == meta.uid or owner == Owner(keys.KIND, meta.name) else str(owner)


def _without_values(body: JSON, paths: Iterable[Parts]) -> JSON:
    for path in paths:
        body = set_in(body, path, None)
    return body
