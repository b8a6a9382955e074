"""What only the cluster knows about a JobSet: asked at admission, with `dryRun=All`, as the manager.

On create the API server is asked to create one Job of each different template and the headless Service, exactly as the
controller would; on update only when the JobSet is resumed, for the templates that changed. Nothing is stored.

What keeps a JobSet out is the API server's own verdict on an object: a 422 of its validation and a 400 of its decoder
(`cluster_verdict` tells how these are known). Quotas, policies, webhooks of others, a missing namespace and an object
of the same name depend on the moment or on other people: they make warnings. So does what could not be asked, because
the API server is busy or away, the time is up, or there is too much to ask. A mutating webhook that breaks one of the
fields we sent cannot be told from a fault of ours: the controller would meet the same answer.

Claims that exist are read in any case (behaviour 3.2 rows 9f to 9h); not being able to is an error, as it always was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from api import keys
from api.batch import Owned
from api.children import build_service
from api.features import FeatureGates
from api.field import SPEC, ErrorType, FieldError, Layer, Path, Rule, Severity
from api.jobset import JobSet
from api.jsontree import dig, set_in
from api.meta import JSON
from api.semantic import semantically_equal
from kube.client import Client
from kube.errors import ApiError, BadRequest, KubeError, NotFound
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from webhooks.jobset.cluster_children import ChildJob, child_jobs, service_name_path, with_uid
from webhooks.jobset.cluster_claims import UNCHECKED, Claim, LiveClaim, claim_faults, claims_of
from webhooks.jobset.cluster_decode import Parts, unreadable
from webhooks.jobset.cluster_faults import REFUSED, decode_faults, job_faults, service_faults
from webhooks.jobset.cluster_verdict import Verdict, verdict, why
from webhooks.jobset.default import by_name
from webhooks.jobset.subject import Unreadable, subject

MAX_IN_FLIGHT = 16
"""Questions in flight at once, of all admission requests of this process."""
PER_REQUEST = 8
"""Of one admission request, so that a JobSet with very many children does not make others wait."""
MAX_JOBS = 32
"""Different templates of one JobSet that are asked about."""
DECODE_ROUNDS = 8
"""Times that a Job which cannot be decoded is asked about again, without what was wrong with it."""

INCOMPLETE = Rule(
    id="dry-run-incomplete",
    type=ErrorType.INVALID,
    message="not checked against the cluster: {why}",
    fix="events tell of faults",
    source="child dry run",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)
JOB_EXISTS = Rule(
    id="child-job-exists",
    type=ErrorType.INVALID,
    message="Job {name} exists and belongs to {owner}",
    fix="rename or delete it",
    source="behaviour 5.13, 7.1 item 11",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)
SERVICE_SHARED = Rule(
    id="service-shared",
    type=ErrorType.INVALID,
    message="Service {name} is JobSet {owner}'s: it finds only its pods, and goes with it",
    fix="choose another name",
    source="behaviour 7.1 item 23",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)
SERVICE_FOREIGN = Rule(
    id="service-foreign",
    type=ErrorType.INVALID,
    message="Service {name} exists and is used as it is; it may not find these pods",
    fix="choose another name",
    source="behaviour 5.10, 7.1 item 11",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Request:
    """One admission request: the JobSet as JSON and read, and when (loop time) the answer is due."""

    raw: JSON
    js: JobSet
    deadline: float

    @property
    def namespace(self) -> str:
        return self.js.metadata.namespace


class ClusterChecks:
    """Asks the API server about JobSets. One for a process: it bounds what is in flight."""

    def __init__(self, client: Client, *, dry_run: bool = True, budget: float = 3.0) -> None:
        """`budget` is in seconds, for all questions about one JobSet; `dry_run` False leaves only the claims."""
        self._client = client.unlimited()
        self._dry_run = dry_run
        self._budget = budget
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def create(self, js: JSON, known: Sequence[FieldError], gates: FeatureGates) -> list[FieldError]:
        """Errors and warnings about a new JobSet (defaulted and readable), without what is a consequence of `known`."""
        request = self._request(js, gates)
        if request is None:
            return []
        async with asyncio.TaskGroup() as group:
            claims = group.create_task(self._claims(request))
            children = group.create_task(self._children(request, gates, range(len(request.js.spec.replicated_jobs))))
        return [*news(children.result(), known), *claims.result()]

    async def update(self, old: JSON, js: JSON, known: Sequence[FieldError], gates: FeatureGates) -> list[FieldError]:
        """The same for an update: a resume with changed templates is checked, nothing else."""
        resumed = dig(old, "spec", "suspend") is True and dig(js, "spec", "suspend") is not True
        request = self._request(js, gates) if resumed else None
        if request is None:
            return []
        stored = by_name(dig(old, "spec", "replicatedJobs"))
        changed = [
            i
            for i, rjob in enumerate(request.js.spec.replicated_jobs)
            if not semantically_equal({"template": rjob.template}, {"template": dig(stored.get(rjob.name), "template")})
        ]
        return news(await self._children(request, gates, changed, service=False), known)

    def _request(self, raw: JSON, gates: FeatureGates) -> _Request | None:
        """None for what is no JobSet at all: that is refused elsewhere."""
        try:
            js = subject(raw, gates).js
        except Unreadable:
            return None
        return _Request(raw, with_uid(js), asyncio.get_running_loop().time() + self._budget)

    async def _children(
        self, request: _Request, gates: FeatureGates, wanted: Iterable[int], *, service: bool = True
    ) -> list[FieldError]:
        js = request.js
        if not self._dry_run or js.spec.managed_by not in {None, keys.CONTROLLER_NAME}:
            return []
        try:
            jobs = child_jobs(request.raw, js, gates, wanted)
            asked: list[ChildJob | JSON] = [
                *jobs[:MAX_JOBS],
                *([build_service(js)] if service and js.dns_enabled else []),
            ]
        except (KeyError, TypeError, AttributeError):
            return []  # a template of no shape that a child could be built from: refused elsewhere
        answers = await self._each(asked, lambda child: self._ask(request, child), request.deadline)
        found = [error for answer in answers if not isinstance(answer, Exception) for error in answer]
        failures = [why(answer, self._budget) for answer in answers if isinstance(answer, Exception)]
        if len(jobs) > MAX_JOBS:
            failures.append(f"{len(jobs) - MAX_JOBS} of {len(jobs)} different templates")
        if failures:
            found.append(INCOMPLETE.at(SPEC.at("replicatedJobs"), why=failures[0]))
        return _each_refusal_once(found)

    async def _ask(self, request: _Request, child: ChildJob | JSON) -> list[FieldError]:
        return await (self._job(request, child) if isinstance(child, ChildJob) else self._service(request, child))

    async def _job(self, request: _Request, child: ChildJob) -> list[FieldError]:
        """Ask about a Job; what cannot be decoded is taken out, so that the rest can be checked too."""
        body = child.body
        found: list[FieldError] = []
        for _ in range(DECODE_ROUNDS):
            error = await self._dry_create(JOBS, body, request.namespace)
            problem = unreadable(body, error.message) if isinstance(error, BadRequest) else None
            if problem is None:
                answer = [] if error is None else await self._job_answer(request, child, error)
                return [*found, *news(answer, found)]
            found += decode_faults(child, problem)
            if not problem.places:
                break
            body = _without(body, problem.places)
        return found

    async def _job_answer(self, request: _Request, child: ChildJob, error: ApiError) -> list[FieldError]:
        match verdict(error, JOBS):
            case Verdict.FAULTY:
                return job_faults(child, error.causes)
            case Verdict.REFUSED:
                return [REFUSED.at(child.path, what="Jobs", why=why(error, self._budget))]
            case Verdict.EXISTS:
                owner = await self._owner(JOBS, child.name, request)
                path = child.path.at("name")
                return [JOB_EXISTS.at(path, child.name, name=child.name, owner=owner)] if owner else []
            case Verdict.UNKNOWN:
                raise error

    async def _service(self, request: _Request, body: JSON) -> list[FieldError]:
        error = await self._dry_create(SERVICES, body, request.namespace)
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
                rule = SERVICE_FOREIGN if jobset == owner else SERVICE_SHARED
                return [rule.at(path, name, name=name, owner=jobset)] if owner else []
            case Verdict.UNKNOWN:
                raise error

    async def _dry_create(self, resource: Resource, body: JSON, namespace: str) -> ApiError | None:
        """None when the object may be created. Raises when there is no answer at all."""
        try:
            await self._client.create(
                resource, body, dry_run=True, type=msgspec.Raw, namespace=namespace, timeout=self._budget
            )
        except ApiError as error:
            return error
        return None

    async def _owner(self, resource: Resource, name: str, request: _Request) -> str:
        """Kind and name of whom an object belongs to; empty when it is in nobody's way.

        That is: it is gone by now, it is this JobSet's own, or one of an earlier JobSet of this name, which is about to
        be collected.
        """
        try:
            found = await self._client.get(resource, name, namespace=request.namespace, type=Owned)
        except NotFound:
            return ""
        owner = found.metadata.controller()
        if owner is None:
            return "nobody"
        ours = owner.uid == request.js.metadata.uid or (owner.kind, owner.name) == (keys.KIND, request.js.metadata.name)
        return "" if ours else f"{owner.kind} {owner.name}"

    async def _claims(self, request: _Request) -> list[FieldError]:
        claims = claims_of(request.js)
        answers = await self._each(claims, lambda claim: self._claim(request, claim), request.deadline)
        found: list[FieldError] = []
        for claim, answer in zip(claims, answers, strict=True):
            if isinstance(answer, Exception):
                reason = why(answer, self._budget)
                late = "context deadline exceeded: " if isinstance(answer, TimeoutError) else ""
                found.append(UNCHECKED.at(claim.path, claim=claim.name, why=late + reason))
            else:
                found += answer
        return found

    async def _claim(self, request: _Request, claim: Claim) -> list[FieldError]:
        try:
            live = await self._client.get(
                PERSISTENT_VOLUME_CLAIMS, claim.name, namespace=request.namespace, type=LiveClaim, timeout=self._budget
            )
        except NotFound:
            return []
        return list(claim_faults(request.js, claim, live))

    async def _each(self, items: Sequence[T], ask: Callable[[T], Awaitable[R]], deadline: float) -> list[R | Exception]:
        """An answer for each item, or why there is none. Never later than the deadline."""
        answers: list[R | Exception] = [TimeoutError() for _ in items]
        queue = enumerate(items)

        async def worker() -> None:
            for number, item in queue:
                try:
                    async with asyncio.timeout_at(deadline), self._slots:
                        answers[number] = await ask(item)
                except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
                    answers[number] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(min(PER_REQUEST, len(items))):
                group.create_task(worker())
        return answers


def _without(body: JSON, places: Iterable[Parts]) -> JSON:
    for place in places:
        body = set_in(body, place, None)
    return body


def _each_refusal_once(found: Iterable[FieldError]) -> list[FieldError]:
    """A quota that is used up refuses all Jobs in the same words: once is enough."""
    said: set[str] = set()
    out = []
    for error in found:
        if error.rule is not REFUSED or error.detail not in said:
            out.append(error)
        if error.rule is REFUSED:
            said.add(error.detail)
    return out


def news(found: Iterable[FieldError], known: Iterable[FieldError]) -> list[FieldError]:
    """What is not said by `known` errors already.

    At the place of a known error nothing more is said. Where the schema or the decoder refused something, the object
    was mended, and what is found around that place is about the mending.
    """
    errors = [error for error in known if not error.is_warning]
    taken = {error.path.parts for error in errors}
    mended = [
        error.path.parts for error in errors if error.layer is Layer.SCHEMA or error.type is ErrorType.TYPE_INVALID
    ]
    return [
        error
        for error in found
        if error.is_warning or not (error.path.parts in taken or any(_near(error.path, parts) for parts in mended))
    ]


def _near(path: Path, parts: Parts) -> bool:
    """Whether one place is or holds the other."""
    shorter = min(len(path.parts), len(parts))
    return path.parts[:shorter] == parts[:shorter]
