"""The checks of a JobSet that need the cluster: dry runs and reads at admission, with the manager's rights.

On create, one Job of each different template and the headless Service are sent to the API server with `dryRun=All`,
exactly as the controller would create them. On update, only templates that change while the JobSet is suspended are
sent. Nothing is stored.

A JobSet is refused only for the API server's own verdict on an object: a 422 of its validation and a 400 of its decoder
(`cluster.verdict` says how to recognise these). Quotas, policies, other webhooks, a missing namespace and an object of
the same name may change later: they become warnings. A dry run without an answer becomes a warning, too: the API server
is busy or unreachable, the time is up, or there are too many objects. The API server's own warnings about Jobs (pod
security, deprecated fields) are passed on. If a mutating webhook breaks a field that we sent, this looks like a fault
of the JobSet: the controller would get the same answer.

A set that differs only in its name from one of the last seconds is not sent again (`cluster.memory`).

Existing claims are always read (docs/reference/validation.md#volume-claims). If the API server is slow or away, or the
bounds on requests are reached (`cluster.questions`), that is a warning: the Go JobSet reads claims from a cache, so
neither makes a JobSet invalid there. If it fails for another reason, such as a missing right, the JobSet is refused.

The author of the JobSet may have fewer rights than the manager, and the review may not come from the API server. So
findings name the author's own objects and fields, and never a value of an object of the cluster. One exception: the
name of a device that resembles the name which the author wrote (`cluster.nodes`).
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

from api.features import FeatureGates
from api.gang_api import GATE
from api.jobset import JobSet, ReplicatedJob
from api.keys import QUEUE_NAME
from api.paths import CLAIM_POLICIES, REPLICATED_JOBS
from kube.client import Client
from kube.errors import NotFound
from kube.model.field import FieldError, Path
from kube.model.jsontree import dig
from kube.model.meta import JSON
from kube.model.semantic import differences
from kube.model.validation import dns1035_label
from kube.resources import PERSISTENT_VOLUME_CLAIMS, Resource
from policy.judged import JudgedJobSet
from webhooks.jobset.cluster.capacity import exclusive
from webhooks.jobset.cluster.children import child_jobs, created_by_us, with_identity
from webhooks.jobset.cluster.claims import UNCHECKED, Claim, LiveClaim, claim_faults, claims_of
from webhooks.jobset.cluster.decode import Parts
from webhooks.jobset.cluster.dry_run import API_WARNS, DryRuns, Request
from webhooks.jobset.cluster.faults import REFUSED
from webhooks.jobset.cluster.gangs import SchedulingApi
from webhooks.jobset.cluster.memory import AnsweredSets, digest
from webhooks.jobset.cluster.needs import LOOKED_UP_FOR_AUTHORS, Need, Needs, classes_of, needs_of
from webhooks.jobset.cluster.new_findings import new_findings
from webhooks.jobset.cluster.nodes import Nodes
from webhooks.jobset.cluster.questions import PER_REVIEW, Ask, BusyError, NotAskedError, Questions, answers
from webhooks.jobset.cluster.quota import Quotas, requests_anything
from webhooks.jobset.cluster.server_version import ServerVersion, agent_need
from webhooks.jobset.cluster.verdict import busy_or_away, describe_error, warning
from webhooks.jobset.default import by_name
from webhooks.jobset.existing_paths import move_to_existing_paths
from webhooks.jobset.rules.scheduling import SCHEDULING
from webhooks.jobset.subject import Subject, Unreadable, subject
from webhooks.jobset.update.resources import is_amount
from webhooks.offload import compute

INCOMPLETE = warning(
    "dry-run-incomplete",
    "not checked against the cluster: {why}",
    "events report faults",
    source="child dry run",
)


class ClusterChecks:
    """Checks JobSets at the API server. One instance for a process, since it limits the requests in flight."""

    def __init__(
        self,
        client: Client,
        *,
        dry_run: bool = True,
        budget: float = 3.0,
        own_rights: bool = False,
        looks_up: Collection[Resource] = (),
        per_review: int = PER_REVIEW,
    ) -> None:
        """`budget` is in seconds, for all questions about one JobSet; `dry_run` False leaves only the claims.

        `own_rights`: the client has the rights of the JobSets' author, so findings may show contents of conflicting
        objects, and missing ConfigMaps, Secrets and device claims. `looks_up`: which of these are looked up with other
        rights. `per_review`: requests about one JobSet at most; half of them may be about existing claims, three
        eighths about quotas, nodes and named needs of its pods: some are left for its Jobs.
        """
        self._scheduling, self._version = SchedulingApi(), ServerVersion()
        self._dry_run = dry_run
        self._budget = budget
        self._own_rights = own_rights
        self._looks_up = LOOKED_UP_FOR_AUTHORS if own_rights else looks_up
        self._per_review = per_review
        self._questions = Questions(client, per_review)
        self._dry_runs = DryRuns(budget, own_rights=own_rights)
        self._answered = AnsweredSets()
        self._needs = Needs(budget)
        self._quotas = Quotas(budget, own_rights=own_rights)
        self._nodes = Nodes(budget, own_rights=own_rights)

    def has_questions(self, js: JSON, old: JSON | None = None) -> bool:
        """Whether `create`, or `update` of `old`, may send any request; never wrongly false."""
        if old is None:
            return self._dry_run or bool(dig(js, "spec", "volumeClaimPolicies"))
        return self._dry_run and any(dig(each, "spec", "suspend") is True for each in (old, js))

    async def create(
        self, js: JSON, known: Sequence[FieldError], gates: FeatureGates, *, namespace: str
    ) -> list[FieldError]:
        """Errors and warnings about a new JobSet (defaulted and valid), without consequences of `known`.

        It is about to be stored in `namespace`, whatever its metadata says.
        """
        read = await compute(_read, js, gates)
        if read is None:
            return []
        async with self._questions.about_one_review() as client:
            request = self._request(client, js, read, known, namespace)
            found = await self._about_new(request, gates)
        return await compute(_worth_saying, found, known, request)

    async def _about_new(self, request: Request, gates: FeatureGates) -> list[FieldError]:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._claims(request))
            asking = group.create_task(self._children(request, gates, range(len(request.js.spec.replicated_jobs))))
            looking = group.create_task(self._groups(request, gates))
            searching = group.create_task(self._shortages(request))
        found, missing = reading.result()
        found += [*asking.result(), *looking.result(), *searching.result()]
        if missing and self._asks_about(request):
            asks: list[Ask] = [partial(self._dry_runs.claim, request, claim) for claim in missing]
            found += await self._answers(request, asks + self._lookups(request, classes_of(missing)))
        return found

    async def update(
        self,
        old: JSON,
        js: JSON,
        known: Sequence[FieldError],
        gates: FeatureGates,
        *,
        namespace: str,
        by_controller: bool = False,
    ) -> list[FieldError]:
        """Check an update with the cluster: templates that change while suspended, nothing else.

        When a set is suspended, its scheduling fields are restored, so only new amounts are checked. `by_controller`:
        by a controller such as a queue, which knows where pods may run; for its resumes, the same holds.
        """
        suspended, suspends = (dig(each, "spec", "suspend") is True for each in (old, js))
        read = await compute(_read, js, gates) if suspended or suspends else None
        if read is None:
            return []
        stored = by_name(dig(old, "spec", "replicatedJobs"))
        asks = suspended and (suspends or not by_controller)
        changed = [
            i
            for i, rjob in enumerate(read.js.spec.replicated_jobs)
            if any(asks or is_amount(path) for path in _changed_paths(stored.get(rjob.name), rjob))
        ]
        async with self._questions.about_one_review() as client:
            request = self._request(client, js, read, known, namespace, is_stored=True)
            found = await self._children(request, gates, changed, service=False)
            if dig(old, "spec", "scheduling") != dig(js, "spec", "scheduling"):
                found += await self._groups(request, gates)
        return await compute(_worth_saying, found, known, request)

    def _request(
        self,
        client: Client,
        raw: JSON,
        read: Subject,
        known: Sequence[FieldError],
        namespace: str,
        *,
        is_stored: bool = False,
    ) -> Request:
        deadline, ours = asyncio.get_running_loop().time() + self._budget, created_by_us(read.js, known)
        needs = () if is_stored else tuple(needs_of(read, self._looks_up))
        return Request(client, raw, with_identity(read.js, namespace), deadline, ours, is_stored, needs)

    def _asks_about(self, request: Request) -> bool:
        """Whether to try the children: dry runs are enabled, and our controller will create the children."""
        return self._dry_run and request.ours

    async def _children(
        self, request: Request, gates: FeatureGates, wanted: Sequence[int], *, service: bool = True
    ) -> list[FieldError]:
        js = request.js
        if not self._asks_about(request):
            return []
        service = service and js.dns_enabled
        if not wanted and not service:
            return []
        key = await compute(digest, request.raw, request.namespace, wanted, service=service)
        async with self._answered.turn(key) as accepted:
            try:
                jobs = [] if accepted else await compute(child_jobs, request.raw, js, gates, wanted)
            except (KeyError, TypeError, AttributeError):
                return []  # a template of which no child can be built: refused elsewhere
            service = service and not (accepted and _service_has_its_name(js))
            asks: list[Ask] = [partial(self._dry_runs.service, request)] if service else []
            asks += [partial(self._dry_runs.job, request, child) for child in jobs]
            found = await self._answers(request, asks)
            if not accepted:
                self._answered.add(key, accepted=not found)
        return found

    async def _groups(self, request: Request, gates: FeatureGates) -> list[FieldError]:
        """Warnings about APIs that its groups need and the API server lacks (without the gate the set is refused)."""
        js = request.js
        if js.spec.scheduling is None or not gates[GATE] or not self._asks_about(request):
            return []
        return await self._answers(request, [partial(self._scheduling.missing, js, request.client)], path=SCHEDULING)

    async def _shortages(self, request: Request) -> list[FieldError]:
        """Warnings about missing objects that its pods need by name, and about quotas and nodes that are too small."""
        if not self._asks_about(request):
            return []
        need = agent_need(request.js)
        asks: list[Ask] = [partial(self._version.shortfalls, *need, request.client)] if need else []
        judged = JudgedJobSet(request.js)
        if requests := await compute(requests_anything, judged):
            asks.append(partial(self._quotas.too_small, judged, request.client))
        if (requests or (self._own_rights and exclusive(judged))) and QUEUE_NAME not in request.js.metadata.labels:
            asks.append(partial(self._nodes.unmet, judged, request.client))
        return await self._answers(
            request, asks + self._lookups(request, request.needs), most=self._per_review * 3 // 8
        )

    def _lookups(self, request: Request, needs: Iterable[Need]) -> list[Ask]:
        return [partial(self._needs.missing, need, request.namespace, request.client) for need in needs]

    async def _answers(
        self, request: Request, asks: Sequence[Ask], path: Path = REPLICATED_JOBS, *, most: int | None = None
    ) -> list[FieldError]:
        """Findings of the first `most` requests, and a warning if some have no answer."""
        answered = await answers(asks[: most or self._per_review], request.deadline)
        found = [error for answer in answered if isinstance(answer, list) for error in answer]
        failures = [answer for answer in answered if isinstance(answer, Exception)]
        return found + self._incomplete_warning(failures, len(asks), len(asks) - len(answered), path)

    def _incomplete_warning(
        self, failures: Sequence[Exception], number_asked: int, left_out: int, path: Path
    ) -> list[FieldError]:
        """A warning about the requests without an answer, if there are any."""
        left_out += sum(isinstance(failure, NotAskedError) for failure in failures)
        whys = [describe_error(failure, self._budget) for failure in failures if not isinstance(failure, NotAskedError)]
        if left_out:
            whys.append(f"{left_out} of {number_asked} objects")
        return [INCOMPLETE.at(path, why=whys[0])] if whys else []

    async def _claims(self, request: Request) -> tuple[list[FieldError], list[Claim]]:
        """Findings about claims that exist, and the claims that do not."""
        claims = claims_of(request.js)
        asks: list[Ask] = [partial(self._claim, request, claim) for claim in claims[: self._per_review // 2]]
        answered = await answers(asks, request.deadline)
        failures = [answer for answer in answered if isinstance(answer, Exception) and _passes(answer)]
        found = self._incomplete_warning(failures, len(claims), len(claims) - len(answered), CLAIM_POLICIES)
        missing: list[Claim] = []
        for claim, answer in zip(claims, answered, strict=False):
            if isinstance(answer, NotFound):
                missing.append(claim)
            elif not isinstance(answer, Exception):
                found += answer
            elif not _passes(answer):
                found.append(UNCHECKED.at(claim.path, claim=claim.name, why=describe_error(answer, self._budget)))
        return found, missing

    async def _claim(self, request: Request, claim: Claim) -> list[FieldError]:
        live = await request.client.get(
            PERSISTENT_VOLUME_CLAIMS, claim.name, namespace=request.namespace, type=LiveClaim, timeout=self._budget
        )
        return list(claim_faults(request.js, claim, live, own_rights=self._own_rights))


def _read(raw: JSON, gates: FeatureGates) -> Subject | None:
    """The JobSet; None if it cannot be decoded: another check refuses that."""
    try:
        return subject(raw, gates)
    except Unreadable:
        return None


def _passes(error: Exception) -> bool:
    """Whether a request may succeed a moment later."""
    return isinstance(error, NotAskedError | BusyError) or busy_or_away(error)


def _service_has_its_name(js: JobSet) -> bool:
    """Whether the Service is named after the set, and that is a valid name of a Service: a DNS label (RFC 1035)."""
    subdomain = js.spec.network and js.spec.network.subdomain
    return not subdomain and not dns1035_label(js.metadata.name)


def _changed_paths(old: JSON | None, new: ReplicatedJob) -> Iterator[Parts]:
    return differences({"template": dig(old, "template")}, {"template": new.template})


def _worth_saying(found: Iterable[FieldError], known: Sequence[FieldError], request: Request) -> list[FieldError]:
    """Findings at existing paths of the object that are not consequences of `known` errors."""
    return move_to_existing_paths(new_findings(_each_once(found), known, request.js), request.raw)


def _each_once(found: Iterable[FieldError]) -> list[FieldError]:
    """Without repetitions: a quota that refuses all children in the same words, and a lack of time, are named once."""
    reported: dict[object, FieldError] = {}
    for error in found:
        reported.setdefault(_said_once(error), error)
    return list(reported.values())


def _said_once(error: FieldError) -> object:
    """The key of a finding that must not be reported twice."""
    if error.rule is INCOMPLETE:
        return INCOMPLETE
    if error.rule is REFUSED:
        return REFUSED, error.words["why"]
    return (API_WARNS, error.detail) if error.rule is API_WARNS else (error.path, error.complaint)
