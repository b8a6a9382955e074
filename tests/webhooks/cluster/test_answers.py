"""What admission reports when the API server refuses a child object in dry run."""

import msgspec
import pytest

from kube.errors import ApiError, Status
from kube.model.field import ErrorType, FieldError, Layer, Path, Rule
from kube.transport import Request, Response
from tests.support.model.scripted_server import (
    UID,
    Script,
    create,
    errors,
    found_object,
    owned_by,
    plural,
    refusal,
    status,
    warnings,
)
from tests.support.objects.jobsets import jobset, rjob
from webhooks.jobset.cluster.verdict import MAX_REASON_LENGTH, describe_error

pytestmark = pytest.mark.looptime


def exists(request: Request) -> Response:
    return status(409, "AlreadyExists", "already exists", name="x", kind=plural(request))


class TestAnswers:
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

    async def test_a_fault_without_a_place_is_asked_about_only_once(self):
        text = 'Job in version "v1" cannot be handled as a Job: something new'
        script = Script({"create jobs": lambda _: status(400, "BadRequest", text)})
        [error] = await create(script, jobset())
        assert str(error.path) == "spec.replicatedJobs[0].template"
        assert error.detail == "the API server cannot read the child Job: something new"
        assert script.asked().count("create jobs") == 1

    @pytest.mark.parametrize(
        ("owner", "warned"),
        [
            (None, "Job train-workers-0 exists and is not this JobSet's; rename or delete it"),
            (owned_by("CronJob", "c"), "Job train-workers-0 exists and is not this JobSet's; rename or delete it"),
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
            (
                owned_by("JobSet", "other"),
                "Service s exists and is not this JobSet's: pods get DNS names only if it selects them",
            ),
            (None, "Service s exists and is not this JobSet's: pods get DNS names only if it selects them"),
            (owned_by("JobSet", "train"), ""),
        ],
    )
    async def test_a_service_of_that_name_is_a_warning_unless_it_is_about_to_go(self, owner, words):
        there = found_object(name="s", ownerReferences=[owner] if owner else [])
        script = Script({"create services": exists, "get services": there})
        found = await create(script, jobset(network={"subdomain": "s"}))
        assert errors(found) == []
        assert warnings(found) == (
            [f"spec.network.subdomain: {words}; delete it, or set spec.network.subdomain to another name"]
            if words
            else []
        )

    async def test_an_existing_object_that_is_gone_when_it_is_read_is_no_conflict(self):
        assert await create(Script({"create jobs": exists, "create services": exists}), jobset()) == []


class TestKnown:
    """What other checks have reported already is not reported again."""

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
    REPAIRED = Rule("repaired", ErrorType.INVALID, "m", "f", "tests", Layer.SCHEMA)

    async def test_without_known_errors_all_are_reported(self):
        image = "template.spec.template.spec.containers[0].image"
        assert await self.paths() == ["metadata.name", "name", "template.spec.backoffLimit", image]

    async def test_at_the_place_of_a_known_error_or_bad_name_nothing_is_reported_again(self):
        name = self.OBJECT.at(Path(("spec", "replicatedJobs", 0, "name")))
        limit = self.OBJECT.at(Path(("spec", "replicatedJobs", 0, "template", "spec", "backoffLimit")))
        assert await self.paths(name, limit) == ["template.spec.template.spec.containers[0].image"]

    async def test_a_warning_is_reported_beside_a_known_error(self):
        answer = status(403, "Forbidden", "no", kind="jobs")
        known = (self.OBJECT.at(Path(("spec", "replicatedJobs", 0))),)
        assert len(await create(Script({"create jobs": lambda _: answer}), jobset(), known)) == 1

    async def test_an_error_above_hides_nothing_unless_the_object_was_repaired_there(self):
        above = Path(("spec", "replicatedJobs"))
        error = self.OBJECT.at(above)
        assert len(await self.paths(error)) == 4
        assert await self.paths(self.REPAIRED.at(above)) == ["metadata.name"]


@pytest.mark.parametrize("user", ["me", "system:serviceaccount:jobset-system:jobset-controller"])
def test_a_missing_right_is_named_whole_however_long_the_user(user):
    text = f'jobs.batch is forbidden: User "{user}" cannot create resource "jobs" in API group "batch" in the namespace "a"'
    told = describe_error(ApiError(403, Status(message=text)), 1.0)
    assert told.startswith("User ")
    assert told.endswith('" cannot create jobs.batch')
    assert len(told) <= MAX_REASON_LENGTH
