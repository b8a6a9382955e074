"""Admission asks the API server within bounds of time and number; a missing answer is a warning."""

import asyncio

import msgspec
import pytest

from kube.client import Client
from kube.errors import TransportError
from kube.transport import Request, Response
from tests.support.model.scripted_server import (
    DATA,
    GATES,
    MOUNT,
    Script,
    checks,
    claims,
    create,
    errors,
    refusal,
    status,
    warnings,
)
from tests.support.objects.jobsets import jobset, rjob, stored
from webhooks.jobset.cluster.checks import ClusterChecks
from webhooks.jobset.cluster.questions import MAX_ASKING_REVIEWS, MAX_REQUESTS, MAX_REQUESTS_IN_FLIGHT, SLOT_TIMEOUT

pytestmark = pytest.mark.looptime


class TestBounds:
    async def test_no_answer_within_the_budget_is_a_warning(self):
        started = asyncio.get_running_loop().time()
        found = await create(Script(seconds=100), jobset())
        assert asyncio.get_running_loop().time() - started == pytest.approx(3, abs=0.1)
        assert errors(found) == []
        assert warnings(found) == [
            "spec.replicatedJobs: not checked against the cluster: no answer within 3 s; events report faults"
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
        assert script.most_in_flight == MAX_REQUESTS_IN_FLIGHT
        assert len(script.requests) == MAX_REQUESTS
        [warning] = warnings(found)
        assert f"not checked against the cluster: {100 - MAX_REQUESTS} of 100 objects;" in warning

    async def test_the_worst_review_asks_a_bounded_number_of_questions(self):
        """Each of its children is in doubt, and asked about again and again."""
        text = 'Job in version "v1" cannot be handled as a Job: json: cannot unmarshal string into Go struct field'
        path = "ContainerPort.spec.template.spec.containers.ports.containerPort of type int32"
        owners = 0

        def job(request: Request) -> Response:
            nonlocal owners
            body = msgspec.json.decode(request.body)
            if body["metadata"]["ownerReferences"] and owners < 2:
                owners += 1
                return status(404, "NotFound", 'jobsets.jobset.x-k8s.io "train" not found')
            if body["metadata"]["name"].startswith("train-a"):
                return status(409, "AlreadyExists", "already exists")
            return status(400, "BadRequest", f"{text} {path}")

        exists = status(409, "AlreadyExists", "already exists")
        script = Script({"create jobs": job, "create services": lambda _: exists})
        ports = [{"containerPort": f"p{i}"} for i in range(9)]
        pod = {"containers": [{"name": "c", "image": "i", "ports": ports}]}
        rjobs = [rjob(f"{'ab'[i % 2]}{i}", parallelism=i, pod={**pod, "priorityClassName": f"c{i}"}) for i in range(40)]
        templates = [{"metadata": {"name": f"data{i}"}, "spec": DATA} for i in range(40)]
        js = jobset(*rjobs, volumeClaimPolicies=[{"templates": templates}])
        found = await create(script, js)
        assert len(script.requests) == MAX_REQUESTS
        assert {"get persistentvolumeclaims", "create jobs", "create services"} <= set(script.asked())
        assert [error.rule.id for error in found if error.rule].count("dry-run-incomplete") == 1

    async def test_questions_keep_to_the_limits_of_the_client(self):
        script = Script()
        await create(script, jobset(rjob(pod=MOUNT), **claims()))
        assert script.requests
        assert all(request.limited for request in script.requests)

    async def test_a_burst_of_expensive_reviews_shares_one_budget(self):
        """Those that get no part of it are answered soon, without what the cluster says."""
        script = Script(seconds=2.5)
        all_checks = checks(script)
        rjobs = [rjob(f"r{i}", parallelism=i) for i in range(20)]
        different = [stored(jobset(*rjobs, ttlSecondsAfterFinished=n)) for n in range(10 * MAX_ASKING_REVIEWS)]
        begun = asyncio.get_running_loop().time()
        tasks = [
            asyncio.create_task(all_checks.findings_about_new(js, (), GATES, namespace="default")) for js in different
        ]
        await asyncio.sleep(SLOT_TIMEOUT + 0.1)
        answered = [task.result() for task in tasks if task.done()]
        assert len(answered) == 9 * MAX_ASKING_REVIEWS
        words = "not checked against the cluster: other JobSets are being checked; events report faults"
        assert [warnings(found) for found in answered] == [[f"spec.replicatedJobs: {words}"]] * len(answered)
        await asyncio.gather(*tasks)
        assert len(script.requests) <= MAX_ASKING_REVIEWS * MAX_REQUESTS
        assert asyncio.get_running_loop().time() - begun == pytest.approx(3.0, abs=0.1)

    async def test_a_review_gives_its_part_of_the_budget_back(self):
        script = Script(seconds=0.01)
        all_checks = checks(script)
        different = [stored(jobset(rjob("a"), ttlSecondsAfterFinished=n)) for n in range(10 * MAX_ASKING_REVIEWS)]
        tasks = [all_checks.findings_about_new(js, (), GATES, namespace="default") for js in different]
        assert await asyncio.gather(*tasks) == [[]] * len(different)
        assert script.most_in_flight <= MAX_ASKING_REVIEWS * MAX_REQUESTS_IN_FLIGHT

    async def test_a_review_that_asks_nothing_needs_no_part_of_the_budget(self):
        script = Script()
        all_checks = checks(script)
        await all_checks.findings_about_new(stored(jobset()), (), GATES, namespace="default")
        script.seconds = 2.0
        different = [stored(jobset(rjob("a"), ttlSecondsAfterFinished=n)) for n in range(MAX_ASKING_REVIEWS)]
        tasks = [
            asyncio.create_task(all_checks.findings_about_new(js, (), GATES, namespace="default")) for js in different
        ]
        await asyncio.sleep(0.1)
        assert await all_checks.findings_about_new(stored(jobset(name="alike")), (), GATES, namespace="default") == []
        await asyncio.gather(*tasks)

    async def test_in_a_rush_jobsets_are_stored_unchecked_and_not_late(self):
        script = Script(seconds=2.0)
        checks = ClusterChecks(Client(script), timeout=8.0)
        different = [stored(jobset(rjob("a"), ttlSecondsAfterFinished=n)) for n in range(50)]
        begun = asyncio.get_running_loop().time()
        answers = await asyncio.gather(
            *(checks.findings_about_new(js, (), GATES, namespace="default") for js in different)
        )
        assert asyncio.get_running_loop().time() - begun == pytest.approx(2.0, abs=0.1)
        assert sum(not found for found in answers) == MAX_ASKING_REVIEWS
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
