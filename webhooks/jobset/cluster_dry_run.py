"""Tries one child of a JobSet at the API server, with `dryRun=All`, and reads the answer.

`cluster_verdict` tells what an answer means, `cluster_faults` what it says about the JobSet.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from api import keys
from api.batch import Owned
from api.children import build_service, build_volume_claim
from api.field import ErrorType, FieldError, Layer, Rule, Severity
from api.jobset import JobSet
from api.jsontree import set_in
from api.meta import JSON, Owner
from kube.client import Client
from kube.errors import ApiError, BadRequest, NotFound
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from webhooks.jobset.cluster_children import ChildJob, service_name_path
from webhooks.jobset.cluster_claims import Claim
from webhooks.jobset.cluster_decode import Parts, unreadable
from webhooks.jobset.cluster_faults import REFUSED, claim_template_faults, decode_faults, job_faults, service_faults
from webhooks.jobset.cluster_needs import Need
from webhooks.jobset.cluster_new_findings import new_findings
from webhooks.jobset.cluster_questions import NotAskedError
from webhooks.jobset.cluster_verdict import Verdict, may_want_owner, misses_owner, verdict, why

DECODE_ROUNDS = 8
"""Times that a Job which cannot be decoded is asked about again, without what was wrong with it."""

OWNERLESS_SECONDS = 600.0
"""How long Jobs of a namespace are asked about without their owner after a webhook has looked for it."""
MOST_NAMESPACES = 1024
"""Namespaces of which that is remembered, the latest."""

API_WARNS = Rule(
    id="child-warning",
    type=ErrorType.INVALID,
    message="{text}",
    fix="",
    source="warning of the API server about a child",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)
JOB_EXISTS = Rule(
    id="child-job-exists",
    type=ErrorType.INVALID,
    message="Job {name} exists and {whose}",
    fix="rename or delete it",
    source="docs/reference/validation.md#what-only-the-cluster-knows, defect 11",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)
SERVICE_SHARED = Rule(
    id="service-shared",
    type=ErrorType.INVALID,
    message="Service {name} belongs to JobSet {owner}: it selects only that set's pods",
    fix="choose another name",
    source="docs/reference/validation.md#what-only-the-cluster-knows, defect 23",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)
SERVICE_FOREIGN = Rule(
    id="service-foreign",
    type=ErrorType.INVALID,
    message="Service {name} exists and is used as it is; it may not select these pods",
    fix="choose another name",
    source="docs/reference/validation.md#what-only-the-cluster-knows, defect 11",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)


@dataclass(frozen=True, slots=True)
class Request:
    """One admission request.

    `client` is for the questions about it. The JobSet as JSON and read, when (loop time) the answer is due, whether our
    controller is the set's, and whether the set is stored already, with Jobs of its own. `needs`: what its pods need of
    the cluster by name.
    """

    client: Client
    raw: JSON
    js: JobSet
    deadline: float
    ours: bool
    is_stored: bool = False
    needs: tuple[Need, ...] = ()

    @property
    def namespace(self) -> str:
        return self.js.metadata.namespace


class DryRuns:
    """What each method gives are findings about the JobSet; without an answer it raises.

    `budget`: seconds for one call. `own_rights`: the questions are asked with the rights of the JobSet's author, who
    may therefore hear whose an object is.

    A webhook of somebody else may look for the owner of a Job (Kueue's does), and refuse one whose JobSet is not
    stored yet. Such a Job is asked about without its owner, and so are all of its namespace for `OWNERLESS_SECONDS`.
    """

    def __init__(self, budget: float, *, own_rights: bool) -> None:
        self._budget = budget
        self._own_rights = own_rights
        self._ownerless_until: OrderedDict[str, float] = OrderedDict()

    async def job(self, request: Request, child: ChildJob) -> list[FieldError]:
        """Ask about a Job; what cannot be decoded is taken out, so that the rest can be checked too."""
        body = child.body
        found: list[FieldError] = []
        for _ in range(DECODE_ROUNDS):
            texts: list[str] = []
            try:
                error = await self._try_job(request, body, texts)
            except NotAskedError:
                if found:
                    break
                raise
            problem = unreadable(body, error.message) if isinstance(error, BadRequest) else None
            if problem is None:
                said = [API_WARNS.at(child.path, text=text) for text in texts]
                answer = said if error is None else await self._job_answer(request, child, error)
                return [*found, *new_findings(answer, found, request.js)]
            found += decode_faults(child, problem)
            if not problem.places:
                break
            body = _without(body, problem.places)
        return found

    async def _try_job(self, request: Request, body: JSON, texts: list[str]) -> ApiError | None:
        """None when the Job may be created; `texts` gets the warnings."""
        if request.is_stored:
            return await self._dry_create(request, JOBS, body, texts)
        clock = asyncio.get_running_loop().time
        if clock() >= self._ownerless_until.get(request.namespace, 0.0):
            heard: list[str] = []
            error = await self._dry_create(request, JOBS, body, heard)
            if error is None or not misses_owner(error, request.js.metadata.name):
                texts += heard
                return error
            self._ask_without_owner(request.namespace, clock() + OWNERLESS_SECONDS)
        ownerless = {**body, "metadata": {**body["metadata"], "ownerReferences": []}}
        error = await self._dry_create(request, JOBS, ownerless, texts)
        # Who wants Jobs to have an owner has nothing against this one.
        return None if error is not None and may_want_owner(error) else error

    def _ask_without_owner(self, namespace: str, until: float) -> None:
        self._ownerless_until[namespace] = until
        self._ownerless_until.move_to_end(namespace)
        if len(self._ownerless_until) > MOST_NAMESPACES:
            self._ownerless_until.popitem(last=False)

    async def _job_answer(self, request: Request, child: ChildJob, error: ApiError) -> list[FieldError]:
        match verdict(error, JOBS):
            case Verdict.FAULTY:
                return job_faults(child, error.causes)
            case Verdict.REFUSED:
                return [REFUSED.at(child.path, what="Jobs", why=why(error, self._budget))]
            case Verdict.EXISTS if request.is_stored:
                return []  # its own, most likely; the controller reports any other
            case Verdict.EXISTS:
                owner = await self._owner(JOBS, child.name, request)
                whose = f"belongs to {owner}" if self._own_rights else "is not this JobSet's"
                path = child.path.at("name")
                return [JOB_EXISTS.at(path, child.name, name=child.name, whose=whose)] if owner else []
            case Verdict.UNKNOWN:
                raise error

    async def service(self, request: Request) -> list[FieldError]:
        body = build_service(request.js)
        error = await self._dry_create(request, SERVICES, body)
        if error is None:
            return []
        path, name = service_name_path(request.js), body["metadata"]["name"]
        match verdict(error, SERVICES):
            case Verdict.FAULTY:
                return service_faults(request.raw, request.js, error.causes)
            case Verdict.REFUSED:
                return [REFUSED.at(path, what="its Service", why=why(error, self._budget))]
            case Verdict.EXISTS:
                owner = await self._owner(SERVICES, name, request)
                jobset = owner.removeprefix(f"{keys.KIND} ")
                rule = SERVICE_SHARED if self._own_rights and jobset != owner else SERVICE_FOREIGN
                return [rule.at(path, name, name=name, owner=jobset)] if owner else []
            case Verdict.UNKNOWN:
                raise error

    async def claim(self, request: Request, claim: Claim) -> list[FieldError]:
        body = build_volume_claim(request.js, claim.policy, claim.template)
        error = await self._dry_create(request, PERSISTENT_VOLUME_CLAIMS, body)
        if error is None:
            return []
        match verdict(error, PERSISTENT_VOLUME_CLAIMS):
            case Verdict.FAULTY:
                return claim_template_faults(claim, error.causes)
            case Verdict.REFUSED:
                return [REFUSED.at(claim.path, what="the claim", why=why(error, self._budget))]
            case Verdict.EXISTS:
                return []
            case Verdict.UNKNOWN:
                raise error

    async def _dry_create(
        self, request: Request, resource: Resource, body: JSON, warnings: list[str] | None = None
    ) -> ApiError | None:
        """None when the object may be created. Raises when there is no answer at all."""
        heard: list[str] = [] if warnings is None else warnings
        try:
            await request.client.create(
                resource,
                body,
                dry_run=True,
                type=msgspec.Raw,
                namespace=request.namespace,
                timeout=self._budget,
                warnings=heard,
            )
        except ApiError as error:
            return error
        return None

    async def _owner(self, resource: Resource, name: str, request: Request) -> str:
        """Kind and name of whom an object belongs to; empty when it is in nobody's way.

        That is: it is gone by now, it is this JobSet's own, or one of an earlier JobSet of this name, which is about to
        be collected.
        """
        try:
            found = await request.client.get(resource, name, namespace=request.namespace, type=Owned)
        except NotFound:
            return ""
        owner = found.metadata.controller()
        if owner is None:
            return "nobody"
        ours = owner.uid == request.js.metadata.uid or found.metadata.owner == Owner(
            keys.KIND, request.js.metadata.name
        )
        return "" if ours else str(found.metadata.owner)


def _without(body: JSON, places: Iterable[Parts]) -> JSON:
    for place in places:
        body = set_in(body, place, None)
    return body
