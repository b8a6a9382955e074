"""Retries refused creations of Jobs: first one Job, since mostly all are refused for the same reason.

If all were retried at once while a quota is exhausted, each retry would send a request for every missing Job.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from controllers.planning.actions import CreateJob
from kube.errors import KubeError
from kube.parallel import Failure

CreateOne = Callable[[CreateJob], Awaitable[None]]
"""Creates a Job. Raises the error if the API server refuses it."""
CreateEach = Callable[[Sequence[CreateJob], CreateOne], Awaitable[list[Failure]]]
"""Creates Jobs concurrently by this function. Returns the failures."""


@dataclass(slots=True)
class RefusedJobs:
    """The names of the Jobs of one JobSet that could not be created, at most as many as one plan creates.

    They are in the order of the next tries, so the Job that was tried last is at the end.
    """

    names: dict[str, None] = field(default_factory=dict)

    async def create(
        self, creations: Sequence[CreateJob], create_each: CreateEach, create_one: CreateOne
    ) -> list[Failure]:
        """Create the Jobs that were not refused before, then the refused Jobs: 1, 2, 4 ... until one is refused again.

        So a Job that is always refused blocks no other Job.
        """
        if not creations:
            self.names = {}
            return []
        by_name = {creation.name: creation for creation in creations}
        self.names = {name: None for name in self.names if name in by_name}
        retries = [by_name[name] for name in self.names]

        async def attempt(creation: CreateJob) -> None:
            try:
                await create_one(creation)
            except (KubeError, TimeoutError):
                self.names.pop(creation.name, None)
                self.names[creation.name] = None
                raise
            self.names.pop(creation.name, None)

        failures = await create_each([creation for creation in creations if creation.name not in self.names], attempt)
        refused: list[Failure] = []
        count = 1
        while retries and not refused:
            refused = await create_each(retries[:count], attempt)
            retries, count = retries[count:], 2 * count
        return [*failures, *refused]
