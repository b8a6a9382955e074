"""JobSets with groups whose pods have no node, for `jobset explain` to look at."""

from typing import Any

import msgspec

from api.gang_objects import build_group
from api.gang_status import StoredGroup
from api.gangs import Forest, forest
from api.jobset import JobSet
from diagnose.facts import Facts, SeenGroups
from tests.support.explain.objects import MOMENT, at, explanation_of, facts, job_of, lease, made, pod_of
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
GANG: JSON = {"gang": {}}
NESTED: JSON = {
    "schedulingPolicy": GANG,
    "schedulingConstraints": {"topology": [{"key": "example.com/superslice"}]},
    "replicatedJobs": [
        {
            "targetReplicatedJobs": ["workers"],
            "job": {"schedulingConstraints": {"topology": [{"key": "example.com/cube"}]}},
        }
    ],
}
EACH: JSON = {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}]}
SHORT = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
WORDS = f"pod group is unschedulable, 0/4 placements are available, first placement status: {SHORT}"
REPEATED = (
    f"pod group is unschedulable, {WORDS}, pod group preemption: No preemption victims found for incoming preemptor"
)


class Played:
    """A set whose Jobs have two pods each, which have no node; its groups are there."""

    def __init__(self, scheduling: JSON, *rjobs: JSON, **status: Any) -> None:
        workers = rjobs or (rjob(replicas=3, parallelism=2, completions=2),)
        self.js = made(stored(jobset(*workers, namespace="team-a", scheduling=scheduling)), **status)
        self.typed = msgspec.convert(self.js, JobSet)
        found = forest(self.typed)
        assert found is not None
        self.forest: Forest = found
        self.jobs = {
            job["metadata"]["name"]: job
            for spec in self.js["spec"]["replicatedJobs"]
            for index in range(spec["replicas"])
            for job in [made(job_of(self.js, index, spec["name"]), active=spec["template"]["spec"]["parallelism"])]
        }
        self.groups = {
            group.name: made(build_group(self.typed, self.forest, group, parent, group.gang_size))
            for root in self.forest.roots
            for group, parent in root.with_parents()
        }
        for group in self.groups.values():
            group["spec"]["priority"] = 0
        for name, job in self.jobs.items():
            job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": self.of_job(name)}
        self.pods: dict[str, JSON] = {}
        for job in self.jobs.values():
            for index in range(job["spec"]["parallelism"]):
                self.pod(job["metadata"]["name"], index)
        self.bound: dict[str, int] = {}

    def pod(self, job: str, index: int, **fields: Any) -> None:
        self.pods[f"{job}-{index}"] = made(pod_of(self.jobs[job], index, **fields))

    def bind(self, job: str) -> None:
        pods = self.jobs[job]["spec"]["parallelism"]
        self.jobs[job]["status"]["ready"] = self.bound[f"uid-{job}"] = pods
        for index in range(pods):
            del self.pods[f"{job}-{index}"]

    def name(self, template: str) -> str:
        """Of the first group that was made from a template."""
        return next(group.name for group in self.forest.groups() if group.template == template)

    def of_job(self, job: str) -> str:
        group = self.forest.of_job(job)
        return "" if group is None else group.name

    def say(self, group: str, message: str, status: str = "False") -> None:
        said = {"status": status, "reason": "Unschedulable", "message": message, "lastTransitionTime": at(MOMENT)}
        self.groups[group]["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", **said}]}

    def refuse_all(self, message: str = WORDS) -> None:
        for job in self.jobs:
            self.say(self.of_job(job), message)
            for index in range(2):
                self.pod(job, index, unscheduled=message)

    def explain(self, **known: Any) -> tuple[str, JSON]:
        return explanation_of(self.facts(**known))

    def facts(self, **known: Any) -> Facts:
        there = {name: msgspec.convert(group, StoredGroup) for name, group in self.groups.items()}
        given = {"lease": lease(), "groups": SeenGroups(there, self.bound), **known}
        return facts(self.js, self.jobs.values(), self.pods.values(), **given)
