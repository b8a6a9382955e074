"""The checks of a JobSet that need the cluster: dry runs and reads at admission, with the manager's rights.

On create, one Job of each different template and the headless Service are sent to the API server with `dryRun=All`,
exactly as the controller would create them. On update, only templates that change while the JobSet is suspended are
sent. Nothing is stored.

A JobSet is refused only for the API server's own verdict on an object: a 422 of its validation or a 400 of its decoder
(`cluster.verdict` says how to recognise them). Quotas, policies, other webhooks, a missing namespace and an object of
the same name may change later, so refusals by them become warnings. A dry run without an answer becomes a warning, too:
the API server is busy or unreachable, the time is up, or there are too many objects. The API server's own warnings
about Jobs (pod security, deprecated fields) are passed on. If a mutating webhook breaks a field of a Job, the JobSet is
refused, as the controller would get the same answer.

No dry runs are sent for a set that differs only in its name from a set that was accepted in the last seconds
(`cluster.memory`).

Existing claims are always read (docs/reference/validation.md#volume-claims). If the API server is slow or unreachable,
or the bounds on requests are reached (`cluster.questions`), the JobSet gets a warning and is not refused, since the Go
JobSet reads claims from a cache. If reading fails for another reason, such as a missing right, the JobSet is refused.

The author of the JobSet may have fewer rights than the manager, and the review may not come from the API server. So
findings name only the author's own objects and fields, and no value of an object of the cluster. The one exception is
the name of a device that resembles the name in the JobSet (`cluster.nodes`).
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
from kube.model.field import FieldError, Parts, Path
from kube.model.jsontree import dig
from kube.model.meta import JSON
from kube.model.semantic import differences
from kube.model.validation import dns1035_label
from kube.resources import PERSISTENT_VOLUME_CLAIMS, Resource
from policy.judged import JudgedJobSet
from webhooks.jobset.cluster.capacity import has_exclusive_jobs
from webhooks.jobset.cluster.children import child_jobs, is_managed_by_us, with_identity
from webhooks.jobset.cluster.claims import UNCHECKED, Claim, LiveClaim, claim_faults, claims_of
from webhooks.jobset.cluster.dry_run import API_WARNS, DryRuns, Request
from webhooks.jobset.cluster.faults import REFUSED
from webhooks.jobset.cluster.gangs import SchedulingApi
from webhooks.jobset.cluster.known_errors import without_consequences
from webhooks.jobset.cluster.memory import AnsweredSets, digest
from webhooks.jobset.cluster.needs import LOOKED_UP_FOR_AUTHORS, Need, Needs, needs_of, storage_class_needs
from webhooks.jobset.cluster.nodes import Nodes
from webhooks.jobset.cluster.questions import MAX_REQUESTS, BusyError, NotAskedError, Question, ReviewClients, answers
from webhooks.jobset.cluster.quota import Quotas, has_requests
from webhooks.jobset.cluster.server_version import ServerVersion, agent_field_and_feature
from webhooks.jobset.cluster.verdict import describe_error, is_busy_or_unreachable, warning
from webhooks.jobset.default import objects_by_name
from webhooks.jobset.existing_paths import move_to_existing_paths
from webhooks.jobset.rules.scheduling import SCHEDULING
from webhooks.jobset.subject import Subject, Unreadable, subject_of
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
        timeout: float = 3.0,
        has_author_rights: bool = False,
        looked_up_kinds: Collection[Resource] = (),
        max_requests: int = MAX_REQUESTS,
    ) -> None:
        """`timeout`: seconds for all requests about one JobSet. `dry_run` False: only claims are checked.

        `has_author_rights`: the client has the rights of the JobSets' author, so findings may show contents of
        conflicting objects, and ConfigMaps, Secrets and device claims are looked up. `looked_up_kinds`: which of these
        kinds are looked up without the author's rights. `max_requests`: the most requests about one JobSet. Half of
        them may be about existing claims, and three eighths about quotas, nodes and objects that its pods need by name,
        so that some are left for its Jobs.
        """
        self._scheduling_api, self._server_version = SchedulingApi(), ServerVersion()
        self._dry_run = dry_run
        self._timeout = timeout
        self._has_author_rights = has_author_rights
        self._looked_up_kinds = LOOKED_UP_FOR_AUTHORS if has_author_rights else looked_up_kinds
        self._max_requests = max_requests
        self._review_clients = ReviewClients(client, max_requests)
        self._dry_runs = DryRuns(timeout, has_author_rights=has_author_rights)
        self._answered_sets = AnsweredSets()
        self._needs = Needs(timeout)
        self._quotas = Quotas(timeout, has_author_rights=has_author_rights)
        self._nodes = Nodes(timeout, has_author_rights=has_author_rights)

    def may_send_requests(self, js: JSON, old: JSON | None = None) -> bool:
        """Whether the findings about a new JobSet, or about an update of `old`, may need requests. False is certain."""
        if old is None:
            return self._dry_run or bool(dig(js, "spec", "volumeClaimPolicies"))
        return self._dry_run and any(dig(each, "spec", "suspend") is True for each in (old, js))

    async def findings_about_new(
        self, js: JSON, known_errors: Sequence[FieldError], gates: FeatureGates, *, namespace: str
    ) -> list[FieldError]:
        """Findings about a new JobSet with its defaults, without consequences of `known_errors`.

        The JobSet will be stored in `namespace`, whatever its metadata says.
        """
        decoded = await compute(_decode, js, gates)
        if decoded is None:
            return []
        async with self._review_clients.client_for_review() as client:
            request = self._request(client, js, decoded, known_errors, namespace)
            findings = await self._all_findings(request, gates)
        return await compute(_reportable_findings, findings, known_errors, request)

    async def _all_findings(self, request: Request, gates: FeatureGates) -> list[FieldError]:
        async with asyncio.TaskGroup() as group:
            claims = group.create_task(self._claim_findings(request))
            children = group.create_task(
                self._child_findings(request, gates, range(len(request.js.spec.replicated_jobs)))
            )
            groups = group.create_task(self._group_warnings(request, gates))
            shortages = group.create_task(self._shortage_warnings(request))
        findings, missing_claims = claims.result()
        findings += [*children.result(), *groups.result(), *shortages.result()]
        if missing_claims and self._checks_children(request):
            questions: list[Question] = [
                partial(self._dry_runs.claim_findings, request, claim) for claim in missing_claims
            ]
            findings += await self._findings_of(
                request, questions + self._need_questions(request, storage_class_needs(missing_claims))
            )
        return findings

    async def findings_about_update(
        self,
        old: JSON,
        js: JSON,
        known_errors: Sequence[FieldError],
        gates: FeatureGates,
        *,
        namespace: str,
        by_controller: bool = False,
    ) -> list[FieldError]:
        """Findings about changed templates in an update of a suspended set, or in an update that suspends the set.

        Only changed amounts are checked in two cases. If an update suspends the set, it restores the scheduling fields.
        If a controller (`by_controller`), such as a queue, resumes the set, the controller knows where pods may run.
        """
        was_suspended, is_suspended = (dig(each, "spec", "suspend") is True for each in (old, js))
        decoded = await compute(_decode, js, gates) if was_suspended or is_suspended else None
        if decoded is None:
            return []
        stored = objects_by_name(dig(old, "spec", "replicatedJobs"))
        checks_all_fields = was_suspended and (is_suspended or not by_controller)
        changed_indices = [
            i
            for i, rjob in enumerate(decoded.js.spec.replicated_jobs)
            if any(checks_all_fields or is_amount(path) for path in _changed_paths(stored.get(rjob.name), rjob))
        ]
        async with self._review_clients.client_for_review() as client:
            request = self._request(client, js, decoded, known_errors, namespace, is_stored=True)
            findings = await self._child_findings(request, gates, changed_indices, with_service=False)
            if dig(old, "spec", "scheduling") != dig(js, "spec", "scheduling"):
                findings += await self._group_warnings(request, gates)
        return await compute(_reportable_findings, findings, known_errors, request)

    def _request(
        self,
        client: Client,
        raw: JSON,
        decoded: Subject,
        known_errors: Sequence[FieldError],
        namespace: str,
        *,
        is_stored: bool = False,
    ) -> Request:
        deadline = asyncio.get_running_loop().time() + self._timeout
        is_ours = is_managed_by_us(decoded.js, known_errors)
        needs = () if is_stored else tuple(needs_of(decoded, self._looked_up_kinds))
        return Request(client, raw, with_identity(decoded.js, namespace), deadline, is_ours, is_stored, needs)

    def _checks_children(self, request: Request) -> bool:
        """Whether children are sent as dry runs: dry runs are enabled, and our controller will create the children."""
        return self._dry_run and request.is_ours

    async def _child_findings(
        self, request: Request, gates: FeatureGates, indices: Sequence[int], *, with_service: bool = True
    ) -> list[FieldError]:
        """Findings about Jobs of the ReplicatedJobs at these indices, and about the headless Service."""
        js = request.js
        if not self._checks_children(request):
            return []
        with_service = with_service and js.dns_enabled
        if not indices and not with_service:
            return []
        key = await compute(digest, request.raw, request.namespace, indices, with_service=with_service)
        async with self._answered_sets.single_check(key) as is_accepted:
            try:
                jobs = [] if is_accepted else await compute(child_jobs, request.raw, js, gates, indices)
            except (KeyError, TypeError, AttributeError):
                return []  # no child can be built from a template that another rule refuses
            with_service = with_service and not (is_accepted and _service_is_named_after_set(js))
            questions: list[Question] = [partial(self._dry_runs.service_findings, request)] if with_service else []
            questions += [partial(self._dry_runs.job_findings, request, child) for child in jobs]
            findings = await self._findings_of(request, questions)
            if not is_accepted:
                self._answered_sets.add(key, is_accepted=not findings)
        return findings

    async def _group_warnings(self, request: Request, gates: FeatureGates) -> list[FieldError]:
        """Warnings about kinds that the set's groups need and the API server does not serve.

        Empty without the feature gate, since admission then refuses `spec.scheduling`.
        """
        js = request.js
        if js.spec.scheduling is None or not gates[GATE] or not self._checks_children(request):
            return []
        return await self._findings_of(
            request, [partial(self._scheduling_api.warnings, js, request.client)], path=SCHEDULING
        )

    async def _shortage_warnings(self, request: Request) -> list[FieldError]:
        """Warnings about missing objects that the pods need by name, and about too small quotas and nodes."""
        if not self._checks_children(request):
            return []
        need = agent_field_and_feature(request.js)
        questions: list[Question] = [partial(self._server_version.warnings, *need, request.client)] if need else []
        judged = JudgedJobSet(request.js)
        if requests := await compute(has_requests, judged):
            questions.append(partial(self._quotas.warnings, judged, request.client))
        reads_nodes = requests or (self._has_author_rights and has_exclusive_jobs(judged))
        if reads_nodes and QUEUE_NAME not in request.js.metadata.labels:
            questions.append(partial(self._nodes.warnings, judged, request.client))
        return await self._findings_of(
            request, questions + self._need_questions(request, request.needs), limit=self._max_requests * 3 // 8
        )

    def _need_questions(self, request: Request, needs: Iterable[Need]) -> list[Question]:
        return [partial(self._needs.warnings, need, request.namespace, request.client) for need in needs]

    async def _findings_of(
        self, request: Request, questions: Sequence[Question], path: Path = REPLICATED_JOBS, *, limit: int | None = None
    ) -> list[FieldError]:
        """Findings of the first `limit` requests, and a warning at `path` if some requests have no answer."""
        results = await answers(questions[: limit or self._max_requests], request.deadline)
        findings = [error for result in results if isinstance(result, list) for error in result]
        failures = [result for result in results if isinstance(result, Exception)]
        return findings + self._incomplete_warnings(failures, len(questions), len(questions) - len(results), path)

    def _incomplete_warnings(
        self, failures: Sequence[Exception], object_count: int, skipped: int, path: Path
    ) -> list[FieldError]:
        """A warning about requests that failed, or were skipped because of a limit; empty if there are none."""
        skipped += sum(isinstance(failure, NotAskedError) for failure in failures)
        reasons = [
            describe_error(failure, self._timeout) for failure in failures if not isinstance(failure, NotAskedError)
        ]
        if skipped:
            reasons.append(f"{skipped} of {object_count} objects")
        return [INCOMPLETE.at(path, why=reasons[0])] if reasons else []

    async def _claim_findings(self, request: Request) -> tuple[list[FieldError], list[Claim]]:
        """Findings about claims that exist, and the claims that do not exist."""
        claims = claims_of(request.js)
        questions: list[Question] = [
            partial(self._existing_claim_findings, request, claim) for claim in claims[: self._max_requests // 2]
        ]
        results = await answers(questions, request.deadline)
        failures = [result for result in results if isinstance(result, Exception) and _is_temporary(result)]
        findings = self._incomplete_warnings(failures, len(claims), len(claims) - len(results), CLAIM_POLICIES)
        missing_claims: list[Claim] = []
        for claim, result in zip(claims, results, strict=False):
            if isinstance(result, NotFound):
                missing_claims.append(claim)
            elif not isinstance(result, Exception):
                findings += result
            elif not _is_temporary(result):
                findings.append(UNCHECKED.at(claim.path, claim=claim.name, why=describe_error(result, self._timeout)))
        return findings, missing_claims

    async def _existing_claim_findings(self, request: Request, claim: Claim) -> list[FieldError]:
        live = await request.client.get(
            PERSISTENT_VOLUME_CLAIMS, claim.name, namespace=request.namespace, type=LiveClaim, timeout=self._timeout
        )
        return list(claim_faults(request.js, claim, live, has_author_rights=self._has_author_rights))


def _decode(raw: JSON, gates: FeatureGates) -> Subject | None:
    """The JobSet; None if it cannot be decoded, which another check refuses."""
    try:
        return subject_of(raw, gates)
    except Unreadable:
        return None


def _is_temporary(error: Exception) -> bool:
    """Whether a request may succeed a moment later."""
    return isinstance(error, NotAskedError | BusyError) or is_busy_or_unreachable(error)


def _service_is_named_after_set(js: JobSet) -> bool:
    """Whether the Service gets the name of the set, and the API server accepts it: a DNS label (RFC 1035)."""
    subdomain = js.spec.network and js.spec.network.subdomain
    return not subdomain and not dns1035_label(js.metadata.name)


def _changed_paths(old: JSON | None, new: ReplicatedJob) -> Iterator[Parts]:
    return differences({"template": dig(old, "template")}, {"template": new.template})


def _reportable_findings(
    findings: Iterable[FieldError], known_errors: Sequence[FieldError], request: Request
) -> list[FieldError]:
    """The findings without consequences of `known_errors` and without repetitions, at existing paths of the object."""
    findings = without_consequences(_without_repetitions(findings), known_errors, request.js)
    return move_to_existing_paths(findings, request.raw)


def _without_repetitions(findings: Iterable[FieldError]) -> list[FieldError]:
    """Each finding once, for example a quota that refuses all children in the same words, or a lack of time."""
    reported: dict[object, FieldError] = {}
    for error in findings:
        reported.setdefault(_repetition_key(error), error)
    return list(reported.values())


def _repetition_key(error: FieldError) -> object:
    """The key that a finding shares with its repetitions."""
    if error.rule is INCOMPLETE:
        return INCOMPLETE
    if error.rule is REFUSED:
        return REFUSED, error.words["why"]
    return (API_WARNS, error.detail) if error.rule is API_WARNS else (error.path, error.complaint)
