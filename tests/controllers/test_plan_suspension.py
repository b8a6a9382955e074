"""What a plan patches when a set is suspended and resumed."""

from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


class TestSuspension:
    def test_created_suspended(self):
        world = World(jobset(rjob("workers", 2), suspend=True))
        world.settle()
        assert all(job["spec"]["suspend"] for job in world.jobs.values())
        assert world.condition("Suspended") == ("True", "SuspendedJobs", "jobset is suspended")
        assert world.counts()["suspended"] == 2

    def test_no_false_suspended_condition_for_a_set_that_never_was(self):
        world = World(jobset())
        world.settle()
        assert world.condition("Suspended") is None

    def admitted(self, world, selector, tolerations):
        """A queue changes the five fields and resumes, as Kueue does."""
        pod = {"nodeSelector": selector, "tolerations": tolerations}
        world.edit(suspend=False, replicated_jobs=jobset(rjob("workers", 2, pod=pod)).spec.replicated_jobs)
        world.settle()

    def test_resume_with_another_template_waits_for_the_old_pods(self):
        world = World(jobset(rjob("workers", 2), suspend=True))
        world.settle()
        self.admitted(world, {"flavor": "spot"}, [])
        world.run()
        world.settle()
        world.edit(suspend=True)
        world.settle()
        self.admitted(world, {"flavor": "on-demand"}, [])
        assert all(job["spec"]["suspend"] for job in world.jobs.values())
        world.halt()
        world.settle()
        assert not any(job["spec"]["suspend"] for job in world.jobs.values())
        assert world.condition("Suspended")[0] == "False"

    def test_resume_keeps_labels_of_the_job_controller(self):
        world = World(jobset(rjob("workers", 1), suspend=True))
        world.settle()
        labels = world.jobs["js-workers-0"]["spec"]["template"]["metadata"]["labels"]
        labels.update({"batch.kubernetes.io/job-name": "js-workers-0", "job-name": "js-workers-0", "stale": "x"})
        world.edit(suspend=False)
        world.settle()
        labels = world.jobs["js-workers-0"]["spec"]["template"]["metadata"]["labels"]
        assert labels["job-name"] == "js-workers-0"
        assert labels["batch.kubernetes.io/job-name"] == "js-workers-0"
        assert "stale" not in labels
