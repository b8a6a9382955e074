"""What is remembered of placed Jobs: when to look for misplaced pods, and since when one has no domain."""

from controllers.placement.memory import JobMemories, JobRequest

JOB = JobRequest("ns", "js-a-0", "uid")


def test_a_later_look_is_not_lost_to_a_sooner_one():
    """A node that is relabelled must not cancel the look after a lost leader."""
    memories = JobMemories()
    memories.look_at(JOB, 0.0, 150.0)
    memories.look_at(JOB, 20.0)
    assert memories.looked(JOB, 20.0) == (150.0,)
    assert memories.looked(JOB, 150.0) == ()
    assert len(memories) == 0


def test_of_many_looks_the_first_and_the_last_are_kept():
    memories = JobMemories()
    for second in range(100):
        memories.look_at(JOB, float(second), second + 150.0)
    assert memories.looks(JOB) == (0.0, 249.0)


def test_a_job_that_is_gone_is_forgotten():
    memories = JobMemories()
    memories.look_at(JOB, 1.0)
    assert memories.without_domain(JOB, 5.0) == 5.0
    assert memories.without_domain(JOB, 9.0) == 5.0
    memories.forget(JOB)
    assert len(memories) == 0
    memories.has_domain(JOB)
    assert len(memories) == 0
