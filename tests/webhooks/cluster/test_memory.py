"""Answers about children that admission remembers, and dry runs of Jobs without their owner."""

import asyncio

import msgspec
import pytest

from kube.transport import Request, Response
from tests.support.model.scripted_server import (
    GATES,
    Script,
    checks,
    errors,
    refusal,
    status,
    warnings,
)
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.cluster import memory as cluster_memory
from webhooks.jobset.cluster.dry_run import OWNERLESS_SECONDS

pytestmark = pytest.mark.looptime


def suspended(*rjobs: JSON, **spec) -> JSON:
    return stored(jobset(*rjobs, suspend=True, **spec))


class TestSetsOfOneShape:
    async def test_sets_of_one_shape_that_come_at_once_are_asked_about_once(self):
        script = Script(seconds=0.1)
        asking = checks(script)
        alike = [stored(jobset(name=f"train-{number}")) for number in range(40)]
        assert (
            await asyncio.gather(*(asking.findings_about_new(js, (), GATES, namespace="default") for js in alike))
            == [[]] * 40
        )
        assert script.asked() == ["create jobs", "create services"]

    async def test_sets_equal_to_one_with_a_warning_are_asked_about_at_the_same_time(self):
        script = Script({"create services": lambda _: status(403, "Forbidden", "exceeded quota: q")}, seconds=0.4)
        asking = checks(script)
        await asking.findings_about_new(stored(jobset()), (), GATES, namespace="default")
        begun = asyncio.get_running_loop().time()
        alike = [stored(jobset(name=f"train-{number}")) for number in range(3)]
        await asyncio.gather(*(asking.findings_about_new(js, (), GATES, namespace="default") for js in alike))
        assert asyncio.get_running_loop().time() - begun == pytest.approx(0.4, abs=0.05)

    async def test_no_set_waits_longer_than_the_budget_for_an_equal_one(self):
        script = Script(seconds=60.0)
        asking = checks(script, timeout=1.0)
        began = asyncio.get_running_loop().time()
        alike = [stored(jobset(name=f"train-{number}")) for number in range(3)]
        for found in await asyncio.gather(
            *(asking.findings_about_new(js, (), GATES, namespace="default") for js in alike)
        ):
            assert any("no answer within 1 s" in warning for warning in warnings(found))
        assert asyncio.get_running_loop().time() - began < 1.5

    @pytest.mark.parametrize(
        "other",
        [
            stored(jobset(rjob(parallelism=3))),
            stored(jobset(ttlSecondsAfterFinished=3)),
            stored(jobset()) | {"metadata": {"name": "train", "labels": {"team": "b"}}},
            stored(jobset()) | {"metadata": {"name": "train", "annotations": {"team": "b"}}},
        ],
    )
    async def test_a_set_that_differs_is_asked_about(self, other):
        script = Script()
        asking = checks(script)
        await asking.findings_about_new(stored(jobset()), (), GATES, namespace="default")
        await asking.findings_about_new(other, (), GATES, namespace="default")
        assert script.asked().count("create jobs") == 2

    async def test_a_set_of_another_namespace_is_asked_about(self):
        script = Script()
        asking = checks(script)
        for namespace in ("default", "elsewhere"):
            await asking.findings_about_new(stored(jobset()), (), GATES, namespace=namespace)
        assert script.asked().count("create jobs") == 2

    async def test_a_name_that_a_service_may_not_have_is_asked_about(self):
        script = Script()
        asking = checks(script)
        assert await asking.findings_about_new(stored(jobset()), (), GATES, namespace="default") == []
        assert await asking.findings_about_new(stored(jobset(name="1-train")), (), GATES, namespace="default") == []
        assert script.asked() == ["create jobs", "create services", "create services"]

    async def test_answers_are_forgotten_after_a_while(self):
        script = Script()
        asking = checks(script)
        await asking.findings_about_new(stored(jobset()), (), GATES, namespace="default")
        await asyncio.sleep(cluster_memory.ANSWER_SECONDS - 1)
        await asking.findings_about_new(stored(jobset()), (), GATES, namespace="default")
        await asyncio.sleep(2)
        await asking.findings_about_new(stored(jobset()), (), GATES, namespace="default")
        assert script.asked().count("create jobs") == 2

    async def test_a_set_with_findings_is_asked_about_again(self):
        fault = ("spec.backoffLimit", "FieldValueInvalid", "Invalid value: -1: must be greater than or equal to 0")
        script = Script({"create jobs": refusal(fault)})
        asking = checks(script)
        for _ in range(2):
            assert len(errors(await asking.findings_about_new(stored(jobset()), (), GATES, namespace="default"))) == 1


class TestWebhooksThatLookForTheOwner:
    """Such as Kueue's webhook for Jobs: the JobSet is not stored yet, so it is not found."""

    def looking(self, inner=lambda _: Response(201, {}, b"{}"), *, who: str = "JobSet"):
        def answer(request: Request) -> Response:
            [*owners] = msgspec.json.decode(request.body)["metadata"]["ownerReferences"]
            if not owners:
                return inner(request)
            text = f'admission webhook "mjob.kb.io" denied the request: {who}.jobset.x-k8s.io "train" not found'
            return status(404, "NotFound", text)

        return answer

    @pytest.mark.parametrize("who", ["JobSet", "jobsets"])
    async def test_the_job_is_asked_about_without_its_owner(self, who):
        script = Script({"create jobs": self.looking(who=who)})
        assert await checks(script).findings_about_new(stored(jobset()), (), GATES, namespace="default") == []
        assert script.asked() == ["create jobs", "create jobs", "create services"]

    async def test_a_real_fault_is_found(self):
        fault = ("spec.template.spec.containers[0].volumeMounts[0].name", "FieldValueNotFound", 'Not found: "x"')
        pod = {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}]}
        script = Script({"create jobs": self.looking(refusal(fault))})
        [error] = await checks(script).findings_about_new(stored(jobset(rjob(pod=pod))), (), GATES, namespace="default")
        assert str(error.path).endswith("template.spec.containers[0].volumeMounts[0].name")

    async def test_the_next_sets_are_asked_about_without_their_owner_at_once(self):
        script = Script({"create jobs": self.looking()})
        asking = checks(script)
        await asking.findings_about_new(stored(jobset(rjob(parallelism=1))), (), GATES, namespace="default")
        await asking.findings_about_new(stored(jobset(rjob(parallelism=2))), (), GATES, namespace="default")
        assert script.asked().count("create jobs") == 3
        await asyncio.sleep(OWNERLESS_SECONDS)
        await asking.findings_about_new(stored(jobset(rjob(parallelism=3))), (), GATES, namespace="default")
        assert script.asked().count("create jobs") == 5

    @pytest.mark.parametrize(
        ("message", "warned"),
        [
            ('admission webhook "policy" denied the request: Jobs need an owner', False),
            ('jobs.batch "train" is forbidden: exceeded quota: q, requested: count/jobs.batch=1', True),
        ],
    )
    async def test_a_refusal_because_the_owner_is_missing_is_not_reported(self, message, warned):
        script = Script({"create jobs": self.looking(lambda _: status(403, "Forbidden", message))})
        found = await checks(script).findings_about_new(stored(jobset()), (), GATES, namespace="default")
        assert errors(found) == []
        assert bool(warnings(found)) == warned


class TestJobsThatExist:
    async def test_the_owner_of_an_existing_job_of_a_stored_set_is_not_read(self):
        script = Script({"create jobs": lambda _: status(409, "AlreadyExists", "there")})
        assert (
            await checks(script).findings_about_update(
                suspended(), suspended(rjob(parallelism=2)), (), GATES, namespace="default"
            )
            == []
        )
        assert script.asked() == ["create jobs"]
