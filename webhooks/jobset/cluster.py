"""What only the cluster knows about a JobSet: asked at admission, with `dryRun=All`, as the manager.

On create the API server is asked to create one Job of each different template and the headless Service, exactly as the
controller would; on update only for templates that change while the JobSet is suspended. Nothing is stored.

What keeps a JobSet out is the API server's own verdict on an object: a 422 of its validation and a 400 of its decoder
(`cluster_verdict` tells how these are known). Quotas, policies, webhooks of others, a missing namespace and an object
of the same name depend on the moment or on other people: they make warnings, and the API server's own warnings about
Jobs (pod security, deprecated fields) are passed on. So does what could not be asked, because
the API server is busy or away, the time is up, or there is too much to ask. A mutating webhook that breaks one of the
fields we sent cannot be told from a fault of ours: the controller would meet the same answer.

Claims that exist are read in any case (docs/reference/validation.md#volume-claims); not being able to is an error.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from api import keys
from api.batch import Owned
from api.children import build_service, build_volume_claim
from api.features import FeatureGates
from api.field import SPEC, ErrorType, FieldError, Layer, Path, Rule, Severity
from api.gang_api import GATE
from api.jobset import JobSet, ReplicatedJob
from api.jsontree import dig, set_in
from api.meta import JSON, Owner
from api.semantic import differences
from kube.client import Client
from kube.errors import ApiError, BadRequest, KubeError, NotFound
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from webhooks.jobset.cluster_children import (
    ChildJob,
    child_jobs,
    identified,
    service_name_path,
)
from webhooks.jobset.cluster_claims import UNCHECKED, Claim, LiveClaim, claim_faults, claims_of
from webhooks.jobset.cluster_decode import Parts, unreadable
from webhooks.jobset.cluster_faults import (
    REFUSED,
    claim_template_faults,
    decode_faults,
    job_faults,
    service_faults,
)
from webhooks.jobset.cluster_gangs import SchedulingApi
from webhooks.jobset.cluster_news import news
from webhooks.jobset.cluster_verdict import Verdict, verdict, why
from webhooks.jobset.default import by_name
from webhooks.jobset.resources import is_amount
from webhooks.jobset.rules.managed_by import PATH as MANAGED_BY
from webhooks.jobset.rules.scheduling import SCHEDULING
from webhooks.jobset.subject import Unreadable, subject

MAX_IN_FLIGHT = 16
"""Questions in flight at once, of all admission requests of this process."""
PER_REQUEST = 8
"""Of one admission request, so that a JobSet with very many children does not make others wait."""
MAX_CHILDREN = 32
"""Children of one JobSet that are asked about: one for each different template, the Service; and as many claims."""
PATIENCE = 0.5
"""Seconds that a dry run waits for its turn: if very many JobSets come at once they are stored unchecked, not late."""
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
    message="Job {name} exists and belongs to {owner}",
    fix="rename or delete it",
    source="docs/reference/validation.md#what-only-the-cluster-knows, defect 11",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)
SERVICE_SHARED = Rule(
    id="service-shared",
    type=ErrorType.INVALID,
    message="Service {name} is JobSet {owner}'s: it finds only its pods, and goes with it",
    fix="choose another name",
    source="docs/reference/validation.md#what-only-the-cluster-knows, defect 23",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)
SERVICE_FOREIGN = Rule(
    id="service-foreign",
    type=ErrorType.INVALID,
    message="Service {name} exists and is used as it is; it may not find these pods",
    fix="choose another name",
    source="docs/reference/validation.md#what-only-the-cluster-knows, defect 11",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)

_CHILDREN = SPEC.at("replicatedJobs")
Ask = Callable[[], Awaitable[list[FieldError]]]


@dataclass(frozen=True, slots=True)
class _Request:
    """One admission request: the JobSet as JSON and read, when (loop time) the answer is due, and if it is for us."""

    raw: JSON
    js: JobSet
    deadline: float
    ours: bool

    @property
    def namespace(self) -> str:
        return self.js.metadata.namespace


class ClusterChecks:
    """Asks the API server about JobSets. One for a process: it bounds what is in flight."""

    def __init__(self, client: Client, *, dry_run: bool = True, budget: float = 3.0) -> None:
        """`budget` is in seconds, for all questions about one JobSet; `dry_run` False leaves only the claims."""
        self._client = client.unlimited()
        self._scheduling = SchedulingApi(self._client)
        self._dry_run = dry_run
        self._budget = budget
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)

    def has_questions(self, js: JSON, old: JSON | None = None) -> bool:
        """Whether `create`, or `update` of `old`, may have anything to ask; never wrongly false."""
        if old is None:
            return self._dry_run or bool(dig(js, "spec", "volumeClaimPolicies"))
        return self._dry_run and any(dig(each, "spec", "suspend") is True for each in (old, js))

    async def create(self, js: JSON, known: Sequence[FieldError], gates: FeatureGates) -> list[FieldError]:
        """Errors and warnings about a new JobSet (defaulted and readable), without what is a consequence of `known`."""
        request = self._request(js, gates, known)
        if request is None:
            return []
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._claims(request))
            asking = group.create_task(self._children(request, gates, range(len(request.js.spec.replicated_jobs))))
            looking = group.create_task(self._groups(request, gates))
        found, missing = reading.result()
        found += [*asking.result(), *looking.result()]
        if missing and self._asks_about(request):
            found += await self._answers(request, [partial(self._new_claim, request, claim) for claim in missing])
        return news(_each_once(found), known, request.js)

    async def update(self, old: JSON, js: JSON, known: Sequence[FieldError], gates: FeatureGates) -> list[FieldError]:
        """The same for an update: templates that change while suspended are checked, nothing else.

        A set that is being suspended gets its scheduling fields back as they were: of it, only new amounts are checked.
        """
        suspended, suspends = (dig(each, "spec", "suspend") is True for each in (old, js))
        request = self._request(js, gates, known) if suspended or suspends else None
        if request is None:
            return []
        stored = by_name(dig(old, "spec", "replicatedJobs"))
        changed = [
            i
            for i, rjob in enumerate(request.js.spec.replicated_jobs)
            if any(suspended or is_amount(place) for place in _changed_places(stored.get(rjob.name), rjob))
        ]
        found = await self._children(request, gates, changed, service=False)
        if dig(old, "spec", "scheduling") != dig(js, "spec", "scheduling"):
            found += await self._groups(request, gates)
        return news(_each_once(found), known, request.js)

    def _request(self, raw: JSON, gates: FeatureGates, known: Sequence[FieldError]) -> _Request | None:
        """None for what is no JobSet at all: that is refused elsewhere."""
        try:
            js = subject(raw, gates).js
        except Unreadable:
            return None
        # A managedBy that is no good names nobody: whoever mends it may well mean us.
        ours = js.is_ours or any(error.path == MANAGED_BY for error in known)
        return _Request(raw, identified(js), asyncio.get_running_loop().time() + self._budget, ours)

    def _asks_about(self, request: _Request) -> bool:
        """Whether there is anything to try: our controller is the one that will make the children."""
        return self._dry_run and request.ours

    async def _children(
        self, request: _Request, gates: FeatureGates, wanted: Iterable[int], *, service: bool = True
    ) -> list[FieldError]:
        js = request.js
        if not self._asks_about(request):
            return []
        try:
            jobs = child_jobs(request.raw, js, gates, wanted)
        except (KeyError, TypeError, AttributeError):
            return []  # a template of which no child can be built: refused elsewhere
        asks: list[Ask] = [partial(self._service, request)] if service and js.dns_enabled else []
        return await self._answers(request, [*asks, *(partial(self._job, request, child) for child in jobs)])

    async def _groups(self, request: _Request, gates: FeatureGates) -> list[FieldError]:
        """What the groups of a set need and the API server has not; without the feature gate the set is refused."""
        js = request.js
        if js.spec.scheduling is None or not gates[GATE] or not self._asks_about(request):
            return []
        return await self._answers(request, [partial(self._scheduling.missing, js)], of=SCHEDULING)

    async def _answers(self, request: _Request, asks: Sequence[Ask], of: Path = _CHILDREN) -> list[FieldError]:
        """Findings about children, and a warning about those that there was no answer about."""
        answers = await self._each(asks[:MAX_CHILDREN], request.deadline, patience=PATIENCE)
        found = [error for answer in answers if not isinstance(answer, Exception) for error in answer]
        failures = [why(answer, self._budget) for answer in answers if isinstance(answer, Exception)]
        if len(asks) > MAX_CHILDREN:
            failures.append(f"{len(asks) - MAX_CHILDREN} of {len(asks)} objects")
        if failures:
            found.append(INCOMPLETE.at(of, why=failures[0]))
        return found

    async def _job(self, request: _Request, child: ChildJob) -> list[FieldError]:
        """Ask about a Job; what cannot be decoded is taken out, so that the rest can be checked too."""
        body = child.body
        found: list[FieldError] = []
        for _ in range(DECODE_ROUNDS):
            texts: list[str] = []
            error = await self._dry_create(JOBS, body, request.namespace, texts)
            problem = unreadable(body, error.message) if isinstance(error, BadRequest) else None
            if problem is None:
                said = [API_WARNS.at(child.path, text=text) for text in texts]
                answer = said if error is None else await self._job_answer(request, child, error)
                return [*found, *news(answer, found, request.js)]
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

    async def _service(self, request: _Request) -> list[FieldError]:
        body = build_service(request.js)
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

    async def _new_claim(self, request: _Request, claim: Claim) -> list[FieldError]:
        body = build_volume_claim(request.js, claim.policy, claim.template)
        error = await self._dry_create(PERSISTENT_VOLUME_CLAIMS, body, request.namespace)
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
        self, resource: Resource, body: JSON, namespace: str, warnings: list[str] | None = None
    ) -> ApiError | None:
        """None when the object may be created. Raises when there is no answer at all."""
        heard: list[str] = [] if warnings is None else warnings
        try:
            await self._client.create(
                resource,
                body,
                dry_run=True,
                type=msgspec.Raw,
                namespace=namespace,
                timeout=self._budget,
                warnings=heard,
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
        ours = owner.uid == request.js.metadata.uid or found.metadata.owner == Owner(
            keys.KIND, request.js.metadata.name
        )
        return "" if ours else str(found.metadata.owner)

    async def _claims(self, request: _Request) -> tuple[list[FieldError], list[Claim]]:
        """Findings about claims that exist, and the claims that do not."""
        claims = claims_of(request.js)
        asks: list[Ask] = [partial(self._claim, request, claim) for claim in claims]
        found: list[FieldError] = []
        missing: list[Claim] = []
        for claim, answer in zip(claims, await self._each(asks, request.deadline), strict=True):
            if isinstance(answer, NotFound):
                missing.append(claim)
            elif isinstance(answer, Exception):
                late = "context deadline exceeded: " if isinstance(answer, TimeoutError) else ""
                found.append(UNCHECKED.at(claim.path, claim=claim.name, why=late + why(answer, self._budget)))
            else:
                found += answer
        return found, missing

    async def _claim(self, request: _Request, claim: Claim) -> list[FieldError]:
        live = await self._client.get(
            PERSISTENT_VOLUME_CLAIMS, claim.name, namespace=request.namespace, type=LiveClaim, timeout=self._budget
        )
        return list(claim_faults(request.js, claim, live))

    async def _each(
        self, asks: Sequence[Ask], deadline: float, *, patience: float = math.inf
    ) -> list[list[FieldError] | Exception]:
        """The answer to each question, or why there is none. Never later than the deadline.

        `patience` is how long, in seconds, a question waits for its turn.
        """
        answers: list[list[FieldError] | Exception] = [TimeoutError() for _ in asks]
        queue = enumerate(asks)

        async def worker() -> None:
            for number, ask in queue:
                try:
                    async with asyncio.timeout_at(deadline), self._turn(patience):
                        answers[number] = await ask()
                except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
                    answers[number] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(min(PER_REQUEST, len(asks))):
                group.create_task(worker())
        return answers

    @contextlib.asynccontextmanager
    async def _turn(self, patience: float) -> AsyncIterator[None]:
        async with asyncio.timeout(None if math.isinf(patience) else patience):
            await self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()


def _changed_places(old: JSON | None, new: ReplicatedJob) -> Iterator[Parts]:
    return differences({"template": dig(old, "template")}, {"template": new.template})


def _without(body: JSON, places: Iterable[Parts]) -> JSON:
    for place in places:
        body = set_in(body, place, None)
    return body


def _each_once(found: Iterable[FieldError]) -> list[FieldError]:
    """Without repetitions: a quota that refuses all children in the same words is named once, so is a lack of time."""
    said: dict[object, FieldError] = {}
    for error in found:
        said.setdefault(_said_once(error), error)
    return list(said.values())


def _said_once(error: FieldError) -> object:
    """What of a finding must not be said again."""
    if error.rule is INCOMPLETE:
        return INCOMPLETE
    if error.rule is REFUSED:
        return REFUSED, error.detail.partition(" refused now: ")[2]
    return (API_WARNS, error.detail) if error.rule is API_WARNS else str(error)
