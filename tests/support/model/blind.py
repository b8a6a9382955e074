"""A JobSet reconciler over an API server in memory, with watches that never show anything.

Of all objects but the JobSet it knows its own writes alone: the stalest cache there can be. Must not decide anything.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet
from controllers.jobset.controller import JobSetReconciler, Options
from controllers.jobset.memory import Memory
from controllers.jobset.watches import Watches
from dev.simulator.patches import merge
from kube.client import Client
from kube.controller import Request
from kube.transport import Request as Call
from kube.transport import Response
from tests.support.model.memory_api import MemoryApi, refuse
from tests.support.model.tally import Tally


class RecordedEvents:
    """Events as they would be recorded."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def record(self, _regarding: object, kind: str, reason: str, note: str, **_: object) -> None:
        self.events.append((kind, reason, note))

    @property
    def notes(self) -> list[tuple[str, str]]:
        """The reason and the note of each."""
        return [(reason, note) for _, reason, note in self.events]


class Blind:
    """A reconciler whose watches never show anything: of all objects but the JobSet it knows its own writes alone."""

    def __init__(self, api: MemoryApi, js: JobSet, options: Options | None = None, **gates: bool) -> None:
        self.api = api
        self.reported = RecordedEvents()
        body = msgspec.to_builtins(js)
        meta = {key: body["metadata"][key] for key in ("generation",)}
        stored = api.put("jobsets", "js", spec=body["spec"], metadata={**meta, "uid": "js-uid"})
        chosen, client = FeatureGates(gates), Client(api)
        watches = Watches(client, chosen)
        self.jobs = watches.jobs.store
        self.jobsets = watches.jobsets.store
        self.jobsets.apply(msgspec.convert(stored, JobSet))
        self.reconciler = JobSetReconciler(
            client, watches.caches(), chosen, self.reported, Tally(), options or Options()
        )

    @property
    def memory(self) -> Memory:
        """What the reconciler knows of the JobSet beyond its caches."""
        return self.reconciler.memories.get_or_create(Request("ns", "js"), "js-uid")

    async def reconcile(self) -> float | None:
        """One reconcile, as soon as the one before lets it; the seconds until the next look."""
        self.memory.rest_until, self.memory.status_write_time = 0.0, None
        return (await self.reconciler.reconcile(Request("ns", "js"))).requeue_after

    def edit(self, **spec: Any) -> None:
        """The user changes the spec, and the watch shows it."""
        old = self.api.objects("jobsets")["ns", "js"]
        meta = {**old["metadata"], "generation": old["metadata"]["generation"] + 1}
        stored = self.api.put("jobsets", "js", spec={**old["spec"], **spec}, metadata=meta)
        self.jobsets.overlay(msgspec.convert(stored, JobSet))

    def change_job(self, name: str, **fields: Any) -> None:
        """A watch event after all: a Job as its controller left it."""
        old = self.api.objects("jobs")["ns", name]
        meta = merge(old["metadata"], fields.pop("metadata", {}))
        self.jobs.overlay(msgspec.convert(self.api.put("jobs", name, metadata=meta, **fields), Job))

    def replicated_jobs_status(self) -> dict[str, dict[str, Any]]:
        """What is stored of each ReplicatedJob."""
        status = self.api.objects("jobsets")["ns", "js"]["status"]
        return {entry["name"]: entry for entry in status["replicatedJobsStatus"]}

    def writes(self) -> list[tuple[str, str]]:
        """(verb, plural) of everything but reads."""
        calls = [call for call in self.api.requests if call.method != "GET"]
        return [(call.verb, call.path.split("/namespaces/ns/")[1]) for call in calls]


def refusing(why: Callable[[str], str | None]) -> MemoryApi:
    """Refuses Jobs with the text that `why` gives for a name, where it gives one."""

    def answering(call: Call) -> Response | None:
        if call.verb != "create" or not call.path.endswith("/jobs"):
            return None
        text = why(msgspec.json.decode(call.body)["metadata"]["name"])
        return None if text is None else refuse(403, text)(call)

    return MemoryApi(answering=answering)
