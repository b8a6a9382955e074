"""Suspension and resume: nothing drifts, amounts follow, and servers before 1.36 are served, too.

See docs/reference/lifecycle.md#suspend-and-resume, KEP-1150.
"""

from typing import Any

import msgspec
import pytest

from api import keys
from controllers.jobset.execute import FailedWrites
from controllers.planning.actions import PatchJob
from kube.transport import Request as Call
from kube.transport import Response
from tests.support.model.blind import Blind
from tests.support.model.lives import of_type, resume, started, suspend
from tests.support.model.memory_api import MemoryApi
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


class TestSuspension:
    """Nothing runs, nothing drifts."""

    def test_with_create_jobs_on_resume_a_suspended_set_keeps_its_jobs_and_gets_no_more(self):
        world = started(rjob("workers", 3))
        world.create_suspended = False
        del world.jobs["js-workers-1"]
        suspend(world)
        assert world.live() == ["js-workers-0", "js-workers-2"]
        assert world.counts()["suspended"] == 2
        resume(world)
        assert len(world.live()) == 3

    @pytest.mark.parametrize("exclusive", [True, False])
    def test_exclusive_jobs_are_resumed_when_their_old_pods_have_ended(self, exclusive):
        """A leader made before would be held to where those are, and the scheduler would not see them go."""
        template = {"metadata": {"annotations": {keys.EXCLUSIVE_TOPOLOGY: "rack"}}} if exclusive else {}
        body = rjob("workers", 1)
        body["template"] |= template
        world = World(jobset(body))
        world.settle()
        world.run()
        suspend(world)
        world.halt()
        world.jobs["js-workers-0"]["status"]["terminating"] = 2
        world.edit(suspend=False)
        world.settle()
        assert world.jobs["js-workers-0"]["spec"]["suspend"] is exclusive
        world.jobs["js-workers-0"]["status"]["terminating"] = 0
        world.settle()
        assert world.jobs["js-workers-0"]["spec"]["suspend"] is False

    @pytest.mark.no_cover
    @pytest.mark.slow
    def test_a_thousand_changing_admissions_leave_no_drift(self):
        world = World(jobset(rjob("workers", 2), suspend=True), ExecutionAttemptsTracking=True)
        world.settle()
        before = msgspec.json.encode(world.jobs["js-workers-0"]["spec"]["template"]["spec"])
        for flip in range(1000):
            pod = {"nodeSelector": {f"flavor-{flip % 7}": "x"}, "schedulingGates": [{"name": f"g{flip % 3}"}]}
            resume(world, replicated_jobs=jobset(rjob("workers", 2, pod=pod)).spec.replicated_jobs)
            world.run()
            spec = world.jobs["js-workers-1"]["spec"]["template"]["spec"]
            assert {key: spec[key] for key in pod} == pod
            world.edit(suspend=True, replicated_jobs=jobset(rjob("workers", 2)).spec.replicated_jobs)
            world.settle()
            world.halt()
        resume(world)
        world.plans.clear()
        world.events.clear()
        assert world.status.execution_attempts == 1000
        spec = world.jobs["js-workers-0"]["spec"]["template"]["spec"]
        assert msgspec.json.encode({k: v for k, v in spec.items() if v}) == before
        assert len(world.status.conditions) == 1
        assert len(world.live()) == 2

    def test_jobs_that_finished_or_are_being_deleted_are_left_alone(self):
        world = started(rjob("workers", 4), failurePolicy={"maxRestarts": 9})
        world.finish("js-workers-0")
        world.jobs["js-workers-1"]["metadata"]["deletionTimestamp"] = world.now
        world.edit(suspend=True)
        assert [patch.name for patch in of_type(world.step(), PatchJob)] == ["js-workers-2", "js-workers-3"]


class TestResources:
    """KEP-1150: amounts that changed while suspended reach the Jobs on resume."""

    GATE = {"MutablePodResourcesForSuspendedJobSets": True}

    @staticmethod
    def sized(cpu: str, *, init: str = "1", gates: tuple[str, ...] = ()) -> dict[str, Any]:
        main = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        side = {"name": "side", "image": "busybox"}
        setup = {"name": "setup", "image": "busybox", "resources": {"limits": {"cpu": init}}}
        held = {"schedulingGates": [{"name": name} for name in gates]} if gates else {}
        return rjob("workers", 2, pod={"containers": [main, side], "initContainers": [setup], **held})

    def test_they_follow_by_the_name_of_the_container(self):
        world = World(jobset(self.sized("1"), suspend=True), **self.GATE)
        world.settle()
        containers = world.jobs["js-workers-0"]["spec"]["template"]["spec"]["containers"]
        containers.insert(0, {"name": "injected", "image": "mesh", "resources": {"requests": {"cpu": "9"}}})
        wanted = jobset(self.sized("2", init="3", gates=("a",))).spec.replicated_jobs
        resume(world, replicated_jobs=wanted)
        spec = world.jobs["js-workers-0"]["spec"]["template"]["spec"]
        found = {c["name"]: c.get("resources") for c in [*spec["containers"], *spec["initContainers"]]}
        assert found == {
            "injected": {"requests": {"cpu": "9"}},
            "main": {"requests": {"cpu": "2"}},
            "side": {},
            "setup": {"limits": {"cpu": "3"}},
        }
        assert spec["schedulingGates"] == [{"name": "a"}]
        patches = [patch for plan in world.plans for patch in of_type(plan, PatchJob)]
        assert all(patch.changes_resources and patch.changes_template for patch in patches)

    def test_gates_of_an_earlier_admission_go_with_a_strategic_patch_too(self):
        world = World(jobset(self.sized("1", gates=("a", "b")), suspend=True), **self.GATE)
        world.settle()
        resume(world, replicated_jobs=jobset(self.sized("1", gates=("c",))).spec.replicated_jobs)
        assert world.jobs["js-workers-0"]["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "c"}]


class OldServer(MemoryApi):
    """Takes another template only for a Job without a start time, as servers before 1.36 do; `never`: not even then."""

    never = False

    async def send(self, request: Call) -> Response:
        if request.method == "PATCH" and "/jobs/" in request.path and not request.path.endswith("/status"):
            started = self.objects("jobs")["ns", request.path.rpartition("/")[2]].get("status", {}).get("startTime")
            if (started or self.never) and "template" in msgspec.json.decode(request.body).get("spec", {}):
                self.requests.append(request)
                refusal = {"kind": "Status", "reason": "Invalid", "message": "field is immutable"}
                return Response(422, {}, msgspec.json.encode(refusal))
        return await super().send(request)


class TestOldServers:
    """Resume with another template where Jobs had started."""

    HALTED = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}

    async def resumed(self, api: MemoryApi, **gates: bool) -> Blind:
        """A set of two Jobs that ran, was suspended, and is resumed elsewhere."""
        blind = Blind(api, jobset(rjob("workers", 2), suspend=True), **gates)
        await blind.reconcile()
        for index in range(2):
            blind.change_job(f"js-workers-{index}", status=self.HALTED)
        await blind.reconcile()
        elsewhere = jobset(rjob("workers", 2, pod={"nodeSelector": {"rack": "b"}})).spec.replicated_jobs
        api.requests.clear()
        blind.reported.events.clear()
        blind.edit(suspend=False, replicatedJobs=msgspec.to_builtins(elsewhere))
        await blind.reconcile()
        return blind

    @pytest.mark.parametrize("old", [True, False])
    async def test_the_start_time_is_cleared_where_the_server_wants_that_and_only_there(self, old):
        blind = await self.resumed(OldServer() if old else MemoryApi())
        for index in range(2):
            job = blind.api.objects("jobs")["ns", f"js-workers-{index}"]
            assert job["spec"]["template"]["spec"]["nodeSelector"] == {"rack": "b"}
            assert job["spec"]["suspend"] is False
            writes = [path for _, path in blind.writes() if f"/js-workers-{index}" in path]
            name = f"jobs/js-workers-{index}"
            assert writes == ([name, f"{name}/status", name] if old else [name])
        assert [reason for _, reason, _ in blind.reported.events] == ["ResumeJobs"]

    async def test_the_new_attempt_is_stored_before_the_first_job_is_resumed(self):
        blind = await self.resumed(MemoryApi())
        written = [path for _, path in blind.writes()]
        assert written[0] == "jobsets/js/status"
        assert written.count("jobsets/js/status") == 1

    async def test_refused_resources_are_reported(self):
        api = OldServer()
        api.never = True
        blind = Blind(api, jobset(rjob("workers", 2), suspend=True), MutablePodResourcesForSuspendedJobSets=True)
        await blind.reconcile()
        blind.edit(suspend=False)
        with pytest.raises(FailedWrites):
            await blind.reconcile()
        assert all(job["spec"]["suspend"] for job in api.objects("jobs").values())
        notes = [note for _, reason, note in blind.reported.events if reason == "FailedResourcePropagation"]
        assert len(notes) == 2
        assert notes[0].startswith("the resources of job js-workers-0 cannot be set while it is resumed: field is imm")
