"""How often Jobs are tried again that the API server has refused."""

from collections.abc import Callable

from controllers.jobset.refused import RefusedJobs
from controllers.planning.actions import CreateJob
from kube.errors import Forbidden, Status
from kube.parallel import Failure, each


class Quota:
    """An API server that creates Jobs by what `allows` says; with the names that it was asked for."""

    def __init__(self, allows: Callable[[str], bool]) -> None:
        self.allows = allows
        self.asked: list[str] = []
        self.created: set[str] = set()
        self.refused = RefusedJobs()

    async def create(self, action: CreateJob) -> None:
        self.asked.append(action.name)
        if not self.allows(action.name):
            raise Forbidden(403, Status(message="exceeded quota"))
        self.created.add(action.name)

    async def plan(self, *names: str) -> tuple[list[str], list[Failure]]:
        """Create those of the names that are missing; what was asked for, and what failed."""
        self.asked.clear()
        missing = [CreateJob(name, dict) for name in names if name not in self.created]
        failures = await self.refused.create(missing, each, self.create)
        return list(self.asked), failures


NAMES = [f"job-{number}" for number in range(30)]


async def test_jobs_that_nothing_refuses_are_created_at_once():
    quota = Quota(lambda _: True)
    assert await quota.plan(*NAMES) == (NAMES, [])


async def test_a_retry_ends_with_the_first_refusal():
    quota = Quota(lambda _: False)
    await quota.plan(*NAMES)
    quota.allows = lambda _: len(quota.created) < 5
    asked, failures = await quota.plan(*NAMES)
    assert len(asked) == 1 + 2 + 4
    assert (len(quota.created), len(failures)) == (5, 2)


async def test_a_job_that_is_refused_for_ever_does_not_hold_up_others():
    quota = Quota(lambda _: False)
    await quota.plan(*NAMES)
    quota.allows = lambda name: name != "job-0"
    await quota.plan(*NAMES)
    await quota.plan(*NAMES)
    assert quota.created == {*NAMES} - {"job-0"}
    asked, failures = await quota.plan(*NAMES, "new-0", "new-1")
    assert asked == ["new-0", "new-1", "job-0"]
    assert len(failures) == 1


async def test_jobs_that_are_not_wanted_any_more_are_forgotten():
    quota = Quota(lambda _: False)
    await quota.plan(*NAMES)
    await quota.plan("other")
    quota.allows = lambda _: True
    assert (await quota.plan(*NAMES))[0] == NAMES
