"""What admission asks the API server about a JobSet, and when it asks nothing."""

import pytest

from kube.model.field import FieldError
from tests.support.model.scripted_server import GATES, MOUNT, Script, checks, claims, create
from tests.support.objects.jobsets import JSON, jobset, rjob, stored

pytestmark = pytest.mark.looptime


class TestWhatIsAsked:
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
        assert (
            await checks(script).findings_about_new(
                {"metadata": {"name": "x"}, "spec": {"replicatedJobs": 1}}, (), GATES, namespace="default"
            )
            == []
        )
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
        return script, await checks(script).findings_about_update(before, after, (), GATES, namespace="default")

    @pytest.mark.parametrize(
        ("by_controller", "suspend", "asked"),
        [(True, False, []), (True, True, ["create jobs"]), (False, False, ["create jobs"])],
    )
    async def test_nothing_is_asked_about_where_a_queue_lets_pods_run(self, by_controller, suspend, asked):
        script = Script()
        before = stored(jobset(rjob("a", replicas=2), suspend=True))
        after = stored(jobset(rjob("a", replicas=2, pod={"nodeSelector": {"zone": "z"}}), suspend=suspend))
        found = await checks(script).findings_about_update(
            before, after, (), GATES, namespace="default", by_controller=by_controller
        )
        assert (found, script.asked()) == ([], asked)

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
