"""What is asked of the API server at admission, within which bounds, and what becomes of no answer.

The API server is a script here; what the real one says is tested in tests/integration/test_child_dry_run.py.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from api.features import FeatureGates
from api.field import ErrorType, FieldError, Layer, Path, Rule
from api.jobset import JobSet
from controllers.planning.actions import CreateClaim, CreateJob, CreateService
from controllers.planning.observed import Observed
from controllers.planning.plan import plan
from kube.client import Client
from kube.errors import TransportError
from kube.transport import Request, Response
from tests.support.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.answers import warning_texts
from webhooks.jobset.cluster import DECODE_ROUNDS, MAX_CHILDREN, MAX_IN_FLIGHT, PER_REQUEST, ClusterChecks

pytestmark = pytest.mark.looptime

GATES = FeatureGates()
UID = "5d3f6f0e-1111-4222-8333-944444444444"
DATA = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
MOUNT = {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}


@dataclass
class Script:
    """A transport that answers by plural and verb: `create jobs`; what is not scripted is taken, or not found."""

    answers: dict[str, Callable[[Request], Response] | Exception] = field(default_factory=dict)
    seconds: float = 0.0
    requests: list[Request] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        answer = self.answers.get(f"{request.verb} {plural(request)}")
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            return answer(request)
        return status(404, "NotFound", "not found") if request.verb == "get" else Response(201, {}, b"{}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        raise AssertionError("nothing is watched")
        yield

    async def close(self) -> None:
        """Nothing to close."""

    def asked(self) -> list[str]:
        return sorted(f"{request.verb} {plural(request)}" for request in self.requests)

    def bodies(self, kind: str) -> list[JSON]:
        found = (msgspec.json.decode(request.body) for request in self.requests if request.body)
        return [body for body in found if body["kind"] == kind]


def plural(request: Request) -> str:
    parts = request.path.split("/")
    return parts[parts.index("namespaces") + 2]


def status(code: int, reason: str, message: str, retry_after: int | None = None, **details: Any) -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return Response(code, {} if retry_after is None else {"retry-after": str(retry_after)}, msgspec.json.encode(body))


def refusal(*causes: tuple[str, str, str], kind: str = "Job") -> Callable[[Request], Response]:
    """422 of the API server's own validation; causes are field, reason, message."""

    def answer(request: Request) -> Response:
        name = msgspec.json.decode(request.body)["metadata"]["name"]
        group = ".batch" if kind == "Job" else ""
        listed = [{"field": f, "reason": reason, "message": message} for f, reason, message in causes]
        return status(422, "Invalid", f'{kind}{group} "{name}" is invalid: [...]', name=name, kind=kind, causes=listed)

    return answer


def found_object(**meta: Any) -> Callable[[Request], Response]:
    return lambda request: Response(200, {}, msgspec.json.encode({"metadata": meta, "spec": meta.pop("spec", {})}))


def exists(request: Request) -> Response:
    return status(409, "AlreadyExists", "already exists", name="x", kind=plural(request))


def owned_by(kind: str, name: str, uid: str = "u") -> JSON:
    return {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def claims(name: str = "data", retain: bool = True, **spec: Any) -> JSON:
    policy = {"templates": [{"metadata": {"name": name}, "spec": {**DATA, **spec}}]}
    return {"volumeClaimPolicies": [{**policy, "retentionPolicy": {"whenDeleted": "Retain" if retain else "Delete"}}]}


def checks(script: Script, **options: Any) -> ClusterChecks:
    return ClusterChecks(Client(script), **options)


async def create(script: Script, js: JSON, known: tuple[FieldError, ...] = (), **options: Any) -> list[FieldError]:
    return await checks(script, **options).create(stored(js), known, GATES)


def errors(found: list[FieldError]) -> list[str]:
    return [str(error) for error in found if not error.is_warning]


def warnings(found: list[FieldError]) -> list[str]:
    texts = warning_texts([error for error in found if error.is_warning])
    assert all(len(text) <= 120 and not text.endswith("...") for text in texts)
    return list(texts)


class TestWhatIsAsked:
    async def test_a_job_and_the_service_are_created_in_dry_run_past_the_controllers_rate_limit(self):
        script = Script()
        assert await create(script, jobset(rjob(replicas=9), namespace="ns")) == []
        assert script.asked() == ["create jobs", "create services"]
        assert {request.path.split("/")[-2] for request in script.requests} == {"ns"}
        assert [("dryRun", "All") in request.query for request in script.requests] == [True, True]
        assert not any(request.limited for request in script.requests)

    @pytest.mark.parametrize("suspend", [True, False])
    async def test_the_children_are_those_that_the_controller_creates(self, suspend):
        raw = stored(
            jobset(
                rjob("driver", pod=MOUNT),
                rjob("workers", replicas=3, parallelism=2, completions=2, groupName="g"),
                coordinator={"replicatedJob": "driver"},
                network={"subdomain": "sub"},
                suspend=suspend,
                **claims(),
            )
        )
        raw["metadata"].update(uid=UID, annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"})
        script = Script()
        gates = FeatureGates({"RestartJob": True, "ExecutionAttemptsTracking": True})
        assert await checks(script).create(raw, (), gates) == []
        js = msgspec.convert(raw, JobSet)
        observed = Observed(js, (), service=None, claims=frozenset(), now="2026-01-01T00:00:00Z")
        made = {
            kind: [action.body for action in plan(observed, gates).actions if isinstance(action, kind)]
            for kind in (CreateJob, CreateService, CreateClaim)
        }
        assert script.bodies("Job") == made[CreateJob][:2]
        assert script.bodies("Service") == made[CreateService]
        assert script.bodies("PersistentVolumeClaim") == made[CreateClaim]

    async def test_an_object_that_has_no_name_and_uid_yet_is_asked_about_with_stand_ins(self):
        js = jobset(name="")
        js["metadata"] = {"generateName": "train-"}
        script = Script()
        assert await create(script, js) == []
        [job] = script.bodies("Job")
        assert job["metadata"]["name"] == "train-xxxxx-workers-0"
        assert script.requests[0].path.startswith("/api/v1/namespaces/default/")
        assert job["metadata"]["ownerReferences"][0]["uid"] == "00000000-0000-0000-0000-000000000000"

    async def test_equal_templates_are_asked_about_once_and_the_answer_is_about_each(self):
        fault = ("spec.backoffLimit", "FieldValueInvalid", "Invalid value: -1: must be greater than or equal to 0")
        script = Script({"create jobs": refusal(fault)})
        found = await create(script, jobset(rjob("a"), rjob("b"), rjob("c", replicas=0), rjob("d")))
        assert script.asked() == ["create jobs", "create services"]
        assert [str(error.path) for error in found] == [
            f"spec.replicatedJobs[{i}].template.spec.backoffLimit" for i in (0, 1, 3)
        ]

    async def test_nothing_is_asked_about_what_makes_no_jobs_here(self):
        script = Script()
        network = {"enableDNSHostnames": False}
        assert await create(script, jobset(rjob(replicas=0), network=network)) == []
        assert await create(script, jobset(managedBy="kueue.x-k8s.io/multikueue")) == []
        assert script.asked() == []

    async def test_switched_off_only_existing_claims_are_looked_at(self):
        script = Script()
        assert await create(script, jobset(rjob(pod=MOUNT), **claims()), dry_run=False) == []
        assert script.asked() == ["get persistentvolumeclaims"]

    async def test_what_is_no_jobset_is_left_to_others(self):
        script = Script()
        assert await checks(script).create({"metadata": {"name": "x"}, "spec": {"replicatedJobs": 1}}, (), GATES) == []
        assert script.asked() == []

    async def test_a_template_of_which_no_child_can_be_built_is_left_to_others(self):
        script = Script()
        nameless = {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"mountPath": "/d"}]}]}
        assert await create(script, jobset(rjob(pod=nameless), **claims())) == []
        assert "create jobs" not in script.asked()


class TestUpdate:
    async def resume(self, old_spec: JSON, new_spec: JSON, old: JSON, new: JSON) -> tuple[Script, list[FieldError]]:
        script = Script()
        before = stored(jobset(old, rjob("same"), **old_spec))
        after = stored(jobset(new, rjob("same"), **new_spec))
        return script, await checks(script).update(before, after, (), GATES)

    async def test_a_resume_asks_about_the_templates_that_changed(self):
        changed = rjob("a", pod={"nodeSelector": {"zone": "z"}})
        script, found = await self.resume({"suspend": True}, {"suspend": False}, rjob("a"), changed)
        assert found == []
        assert script.asked() == ["create jobs"]
        [job] = script.bodies("Job")
        assert job["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "z"}
        assert job["spec"]["suspend"] is False

    async def test_a_template_that_changes_while_suspended_is_asked_about(self):
        changed = rjob("a", pod={"nodeSelector": {"zone": "z"}})
        script, _ = await self.resume({"suspend": True}, {"suspend": True}, rjob("a"), changed)
        [job] = script.bodies("Job")
        assert job["spec"]["suspend"] is True

    async def test_new_amounts_are_asked_about_with_the_suspension_too(self):
        container = {
            "name": "main",
            "image": "busybox",
            "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        }
        changed = rjob("a", pod={"containers": [container]})
        script, _ = await self.resume({"suspend": False}, {"suspend": True}, rjob("a"), changed)
        [job] = script.bodies("Job")
        assert job["spec"]["template"]["spec"]["containers"] == [container]

    @pytest.mark.parametrize(
        ("before", "after", "pod"),
        [
            (True, False, {}),
            (True, True, {}),
            (False, True, {"nodeSelector": {"zone": "z"}}),
            (False, False, {"nodeSelector": {"zone": "z"}}),
            (
                False,
                False,
                {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"cpu": "1"}}}]},
            ),
        ],
    )
    async def test_nothing_else_asks(self, before, after, pod):
        script, found = await self.resume({"suspend": before}, {"suspend": after}, rjob("a"), rjob("a", pod=pod))
        assert (script.asked(), found) == ([], [])


class TestBounds:
    async def test_no_answer_within_the_budget_is_a_warning(self):
        started = asyncio.get_running_loop().time()
        found = await create(Script(seconds=100), jobset())
        assert asyncio.get_running_loop().time() - started == pytest.approx(3, abs=0.1)
        assert errors(found) == []
        assert warnings(found) == [
            "spec.replicatedJobs: not checked against the cluster: no answer within 3 s; events tell of faults"
        ]

    async def test_what_was_answered_in_time_counts(self):
        def slow_after_the_first(request: Request) -> Response:
            script.seconds = 100
            return refusal(("spec.backoffLimit", "FieldValueInvalid", "no"))(request)

        script = Script({"create jobs": slow_after_the_first})
        js = jobset(*(rjob(f"r{i}", parallelism=i + 1, completions=i + 1) for i in range(20)))
        found = await create(script, js)
        assert "spec.replicatedJobs[0].template.spec.backoffLimit: no" in errors(found)
        assert len(warnings(found)) == 1

    async def test_one_jobset_has_few_questions_in_flight_and_a_limited_number_in_all(self):
        script = Script(seconds=0.01)
        found = await create(script, jobset(*(rjob(f"r{i}", parallelism=i) for i in range(99))))
        assert script.most_in_flight == PER_REQUEST
        assert len(script.requests) == MAX_CHILDREN
        [warning] = warnings(found)
        assert f"not checked against the cluster: {100 - MAX_CHILDREN} of 100 objects;" in warning

    async def test_many_admissions_share_the_slots_of_the_process(self):
        script = Script(seconds=0.01)
        all_checks = checks(script)
        js = stored(jobset(*(rjob(f"r{i}", parallelism=i) for i in range(20))))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(all_checks.create(js, (), GATES)) for _ in range(5)]
        assert [task.result() for task in tasks] == [[]] * 5
        assert script.most_in_flight == MAX_IN_FLIGHT

    async def test_in_a_rush_jobsets_are_stored_unchecked_and_not_late(self):
        script = Script(seconds=2.0)
        checks = ClusterChecks(Client(script), budget=8.0)
        js = stored(jobset(rjob("a")))
        begun = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(checks.create(js, [], GATES) for _ in range(50)))
        assert asyncio.get_running_loop().time() - begun == pytest.approx(2.0, abs=0.1)
        assert sum(not found for found in answers) == MAX_IN_FLIGHT // 2
        assert {error.rule.id for found in answers for error in found if error.rule} == {"dry-run-incomplete"}

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (TransportError("refused", sent=False), "no connection to the API server"),
            (TransportError("reset"), "no answer from the API server"),
            (lambda _: status(429, "TooManyRequests", "too many"), "too many"),
            (lambda _: status(429, "TooManyRequests", "too many", retry_after=9), "no answer within 3 s"),
            (
                lambda _: status(500, "InternalError", 'Internal error occurred: failed calling webhook "w"'),
                "500 failed",
            ),
            (lambda _: Response(502, {}, b"<html>"), "502 HTTP 502 with a body"),
            (lambda _: Response(201, {}, b"<html>"), "an answer that cannot be read"),
        ],
    )
    async def test_an_api_server_that_cannot_be_asked_is_one_warning(self, answer, words):
        script = Script({"create jobs": answer, "create services": answer})
        found = await create(script, jobset(rjob("a"), rjob("b", parallelism=2)))
        assert errors(found) == []
        [warning] = warnings(found)
        assert f"not checked against the cluster: {words}" in warning

    async def test_a_busy_api_server_is_asked_again_within_the_budget(self):
        def busy_once(request: Request) -> Response:
            del script.answers["create jobs"]
            return status(429, "TooManyRequests", "too many", retry_after=1)

        script = Script({"create jobs": busy_once})
        assert await create(script, jobset()) == []
        assert script.asked().count("create jobs") == 2


class TestAnswers:
    async def test_what_others_refuse_is_a_warning_and_named_once(self):
        text = (
            'jobs.batch "{}" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=0'
        )

        def quota(request: Request) -> Response:
            name = msgspec.json.decode(request.body)["metadata"]["name"]
            return status(403, "Forbidden", text.format(name), name=name, kind="jobs")

        found = await create(Script({"create jobs": quota}), jobset(rjob("a"), rjob("b", parallelism=2)))
        assert errors(found) == []
        assert warnings(found) == ["spec.replicatedJobs[0]: Jobs would be refused now: exceeded quota: q"]

    async def test_a_job_that_cannot_be_decoded_is_asked_about_again_without_what_is_wrong(self):
        def decode(request: Request) -> Response:
            spec = msgspec.json.decode(request.body)["spec"]
            prefix = 'Job in version "v1" cannot be handled as a Job: json: cannot unmarshal'
            if spec["parallelism"] is not None:
                text = f"{prefix} number 3000000000 into Go struct field JobSpec.spec.parallelism of type int32"
                return status(400, "BadRequest", text)
            if spec["template"]["spec"].get("priority") is not None:
                text = f"{prefix} string into Go struct field PodSpec.spec.template.spec.priority of type int32"
                return status(400, "BadRequest", text)
            required = ("spec.parallelism", "FieldValueRequired", "Required value")
            return refusal(required, ("spec.completions", "FieldValueInvalid", "Invalid value: 1: x"))(request)

        script = Script({"create jobs": decode})
        found = await create(script, jobset(rjob(parallelism=3_000_000_000, pod={"priority": "x"})))
        spec = "spec.replicatedJobs[0].template.spec"
        assert [(str(e.path), e.value, e.fix) for e in found] == [
            (f"{spec}.parallelism", 3_000_000_000, "write a whole number that fits into int32, without quotes"),
            (f"{spec}.template.spec.priority", "x", "write a whole number that fits into int32, without quotes"),
            (f"{spec}.completions", 1, ""),
        ]

    async def test_a_job_full_of_what_cannot_be_decoded_is_asked_about_so_many_times(self):
        text = 'Job in version "v1" cannot be handled as a Job: json: cannot unmarshal string into Go struct field'
        path = "ContainerPort.spec.template.spec.containers.ports.containerPort of type int32"
        script = Script({"create jobs": lambda _: status(400, "BadRequest", f"{text} {path}")})
        ports = [{"containerPort": f"p{i}"} for i in range(99)]
        found = await create(script, jobset(rjob(pod={"containers": [{"name": "c", "image": "i", "ports": ports}]})))
        assert script.asked().count("create jobs") == len(found) == DECODE_ROUNDS

    async def test_and_only_once_when_nobody_knows_where(self):
        text = 'Job in version "v1" cannot be handled as a Job: something new'
        script = Script({"create jobs": lambda _: status(400, "BadRequest", text)})
        [error] = await create(script, jobset())
        assert str(error.path) == "spec.replicatedJobs[0].template"
        assert error.detail == "the API server cannot read the child Job: something new"
        assert script.asked().count("create jobs") == 1

    @pytest.mark.parametrize(
        ("owner", "warned"),
        [
            (None, "Job train-workers-0 exists and belongs to nobody; rename or delete it"),
            (owned_by("CronJob", "c"), "Job train-workers-0 exists and belongs to CronJob c; rename or delete it"),
            (owned_by("JobSet", "train", "an earlier one"), ""),
            (owned_by("JobSet", "renamed", UID), ""),
        ],
    )
    async def test_a_job_of_that_name_is_a_warning_unless_it_is_our_own_or_about_to_go(self, owner, warned):
        js = jobset()
        js["metadata"]["uid"] = UID
        there = found_object(name="train-workers-0", ownerReferences=[owner] if owner else [])
        found = await create(Script({"create jobs": exists, "get jobs": there}), js)
        assert errors(found) == []
        assert warnings(found) == ([f"spec.replicatedJobs[0].name: {warned}"] if warned else [])

    @pytest.mark.parametrize(
        ("owner", "words"),
        [
            (owned_by("JobSet", "other"), "Service s is JobSet other's: it finds only its pods, and goes with it"),
            (None, "Service s exists and is used as it is; it may not find these pods"),
            (owned_by("JobSet", "train"), ""),
        ],
    )
    async def test_a_service_of_that_name_is_a_warning_unless_it_is_about_to_go(self, owner, words):
        there = found_object(name="s", ownerReferences=[owner] if owner else [])
        script = Script({"create services": exists, "get services": there})
        found = await create(script, jobset(network={"subdomain": "s"}))
        assert errors(found) == []
        assert warnings(found) == ([f"spec.network.subdomain: {words}; choose another name"] if words else [])

    async def test_an_object_that_is_gone_when_it_is_looked_at_is_in_nobodys_way(self):
        assert await create(Script({"create jobs": exists, "create services": exists}), jobset()) == []


class TestKnown:
    """What others have said already is not said again."""

    JOB = staticmethod(
        refusal(
            ("metadata.name", "FieldValueInvalid", 'Invalid value: "x": bad'),
            ("spec.backoffLimit", "FieldValueInvalid", "Invalid value: -1: bad"),
            ("spec.template.spec.containers[0].image", "FieldValueRequired", "Required value"),
        )
    )
    SERVICE = staticmethod(refusal(("metadata.name", "FieldValueInvalid", 'Invalid value: "x": bad'), kind="Service"))

    async def paths(self, *known: FieldError) -> list[str]:
        script = Script({"create jobs": self.JOB, "create services": self.SERVICE})
        found = await create(script, jobset(), known)
        return sorted(str(error.path).removeprefix("spec.replicatedJobs[0].") for error in found)

    OBJECT = Rule("object", ErrorType.INVALID, "m", "f", "tests")
    MENDED = Rule("mended", ErrorType.INVALID, "m", "f", "tests", Layer.SCHEMA)

    async def test_without_known_errors_all_is_said(self):
        image = "template.spec.template.spec.containers[0].image"
        assert await self.paths() == ["metadata.name", "name", "template.spec.backoffLimit", image]

    async def test_at_the_place_of_a_known_error_nothing_more_is_said_and_bad_names_are_known(self):
        name = self.OBJECT.at(Path(("spec", "replicatedJobs", 0, "name")))
        limit = self.OBJECT.at(Path(("spec", "replicatedJobs", 0, "template", "spec", "backoffLimit")))
        assert await self.paths(name, limit) == ["template.spec.template.spec.containers[0].image"]

    async def test_one_bad_name_of_several_does_not_speak_for_the_jobsets(self):
        script = Script({"create services": self.SERVICE})
        known = (self.OBJECT.at(Path(("spec", "replicatedJobs", 1, "name"))),)
        found = await create(script, jobset(rjob("a"), rjob("b")), known)
        assert [str(error.path) for error in found] == ["metadata.name"]

    async def test_a_warning_is_said_beside_a_known_error(self):
        answer = status(403, "Forbidden", "no", kind="jobs")
        known = (self.OBJECT.at(Path(("spec", "replicatedJobs", 0))),)
        assert len(await create(Script({"create jobs": lambda _: answer}), jobset(), known)) == 1

    async def test_an_error_above_hides_nothing_unless_the_object_was_mended_there(self):
        above = Path(("spec", "replicatedJobs"))
        error = self.OBJECT.at(above)
        assert len(await self.paths(error)) == 4
        assert await self.paths(self.MENDED.at(above)) == ["metadata.name"]

    async def test_around_a_mended_place_nothing_is_said(self):
        container = Path(("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0))
        for place in (container, container.at("image", "deeper")):
            assert await self.paths(self.MENDED.at(place)) == ["metadata.name", "name", "template.spec.backoffLimit"]


class TestClaims:
    """Rows 9f to 9h of behaviour section 3.2."""

    PREFIX = "spec.volumeClaimPolicies[0].template[0]"

    async def ask(self, answer: Any, **options: Any) -> list[FieldError]:
        script = Script({"get persistentvolumeclaims": answer})
        return await create(script, jobset(rjob(pod=MOUNT), **claims(**options)))

    async def test_a_claim_that_fits_is_reused(self):
        live = {**DATA, "volumeMode": "Filesystem", "storageClassName": "standard", "volumeName": "pv-1"}
        assert await self.ask(found_object(name="data-train", spec=live)) == []

    async def test_one_that_does_not_is_an_error_in_the_words_of_go(self):
        found = await self.ask(
            found_object(name="data-train", spec={**DATA, "storageClassName": "slow"}), storageClassName="fast"
        )
        [error] = errors(found)
        assert error.startswith(f"{self.PREFIX}.spec: Invalid value: {{")
        assert (
            'spec does not match existing PVC data-train in namespace default; storageClassName is "slow" there:'
            in error
        )

    async def test_a_claim_that_would_go_with_the_jobset_must_not_be_there_before(self):
        found = await self.ask(found_object(name="data-train", spec=DATA), retain=False)
        [error] = errors(found)
        assert error == (
            'spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted: Invalid value: "Delete": retentionPolicy must be'
            ' retain when PVC exists; set it to Retain, or delete the claim "data-train" if its data may go'
        )

    @pytest.mark.parametrize(
        "meta", [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"ownerReferences": [owned_by("JobSet", "train")]}]
    )
    async def test_a_claim_on_its_way_out_is_a_warning(self, meta):
        found = await self.ask(found_object(name="data-train", spec={}, **meta), retain=False)
        assert errors(found) == []
        assert warnings(found) == [
            f"{self.PREFIX}: PVC data-train is being deleted; a new, empty one is made once it is gone"
        ]

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (lambda _: status(500, "InternalError", "etcd is away"), "500 etcd is away"),
            (lambda _: status(403, "Forbidden", 'persistentvolumeclaims "x" is forbidden: no right'), "no right"),
            (TransportError("refused", sent=False), "no connection to the API server"),
            (
                lambda _: status(429, "TooManyRequests", "x", retry_after=9),
                "context deadline exceeded: no answer within 3 s",
            ),
        ],
    )
    async def test_a_claim_that_cannot_be_read_is_an_internal_error(self, answer, words):
        [error] = errors(await self.ask(answer))
        assert error == (
            f"{self.PREFIX}: Internal error: failed to check for existing PVC data-train: {words};"
            " apply the JobSet again once the API server answers"
        )

    async def test_a_claim_to_be_made_is_tried_and_its_faults_stand_at_the_template(self):
        faults = refusal(
            ("spec.accessModes", "FieldValueRequired", "Required value: at least 1 access mode is required"),
            ("spec.resources[storage]", "FieldValueRequired", "Required value"),
            ("metadata.name", "FieldValueInvalid", "Invalid value: no"),
            kind="PersistentVolumeClaim",
        )
        script = Script({"create persistentvolumeclaims": faults})
        found = await create(script, jobset(rjob(pod=MOUNT), **claims()))
        assert [str(error.path) for error in found] == [
            f"{self.PREFIX}.spec.accessModes",
            f"{self.PREFIX}.spec.resources.requests.storage",
            f"{self.PREFIX}.name",
        ]

    async def test_a_claim_that_somebody_refuses_now_is_a_warning_with_the_reason(self):
        quota = 'persistentvolumeclaims "x" is forbidden: exceeded quota: none, requested: a'
        script = Script({"create persistentvolumeclaims": lambda _: status(403, "Forbidden", quota)})
        found = await create(script, jobset(rjob(pod=MOUNT), **claims()))
        assert errors(found) == []
        [warning] = warnings(found)
        assert "exceeded quota: none" in str(warning)

    async def test_a_claim_that_somebody_makes_meanwhile_is_nothing_to_tell(self):
        script = Script({"create persistentvolumeclaims": lambda _: status(409, "AlreadyExists", "x")})
        assert await create(script, jobset(rjob(pod=MOUNT), **claims())) == []

    async def test_a_claim_that_cannot_be_tried_is_only_a_warning(self):
        script = Script({"create persistentvolumeclaims": lambda _: status(500, "InternalError", "x")})
        found = await create(script, jobset(rjob(pod=MOUNT), **claims()))
        assert errors(found) == []
        assert len(warnings(found)) == 1

    async def test_a_name_that_no_object_can_have_is_not_looked_up(self):
        script = Script()
        await create(script, jobset(**claims(name="../../secrets")))
        assert "get persistentvolumeclaims" not in script.asked()
