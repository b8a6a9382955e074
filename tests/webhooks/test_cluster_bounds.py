"""Admission asks the API server within bounds of time and number; a missing answer is a warning."""

import asyncio

import pytest

from kube.client import Client
from kube.errors import TransportError
from kube.transport import Request, Response
from tests.support.jobsets import jobset, rjob, stored
from tests.support.scripted_server import (
    GATES,
    Script,
    checks,
    create,
    errors,
    refusal,
    status,
    warnings,
)
from webhooks.jobset.cluster import MAX_CHILDREN, ClusterChecks
from webhooks.jobset.cluster_questions import MAX_IN_FLIGHT, PER_REQUEST

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
        assert script.most_in_flight == PER_REQUEST
        assert len(script.requests) == MAX_CHILDREN
        [warning] = warnings(found)
        assert f"not checked against the cluster: {100 - MAX_CHILDREN} of 100 objects;" in warning

    async def test_many_admissions_share_the_slots_of_the_process(self):
        script = Script(seconds=0.01)
        all_checks = checks(script)
        rjobs = [rjob(f"r{i}", parallelism=i) for i in range(20)]
        different = [stored(jobset(*rjobs, ttlSecondsAfterFinished=n)) for n in range(5)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(all_checks.create(js, (), GATES)) for js in different]
        assert [task.result() for task in tasks] == [[]] * 5
        assert script.most_in_flight == MAX_IN_FLIGHT

    async def test_in_a_rush_jobsets_are_stored_unchecked_and_not_late(self):
        script = Script(seconds=2.0)
        checks = ClusterChecks(Client(script), budget=8.0)
        different = [stored(jobset(rjob("a"), ttlSecondsAfterFinished=n)) for n in range(50)]
        begun = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(checks.create(js, [], GATES) for js in different))
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
