"""What is remembered of placed Jobs: when to look for misplaced pods, and since when one has no domain."""

from hypothesis import given
from hypothesis import strategies as st

from controllers.placement.memory import JobMemories, JobRequest
from controllers.placement.plan import REPORT_EVERY

JOB = JobRequest("ns", "js-a-0", "uid")


def test_a_later_look_is_not_lost_to_a_sooner_one():
    """A node that is relabelled must not cancel the look after a lost leader."""
    memories = JobMemories()
    memories.check_at(JOB, 0.0, 150.0)
    memories.check_at(JOB, 20.0)
    assert not memories.forget_due_checks(JOB, -1.0)
    assert memories.forget_due_checks(JOB, 20.0)
    assert memories.checks(JOB) == (150.0,)
    assert memories.forget_due_checks(JOB, 150.0)
    assert len(memories) == 0


def test_of_many_looks_the_first_and_the_last_are_kept():
    memories = JobMemories()
    for second in range(100):
        memories.check_at(JOB, float(second), second + 150.0)
    assert memories.checks(JOB) == (0.0, 249.0)


def test_a_job_that_is_gone_is_forgotten():
    memories = JobMemories()
    memories.check_at(JOB, 1.0)
    assert memories.without_domain_since(JOB, 5.0) == 5.0
    assert memories.without_domain_since(JOB, 9.0) == 5.0
    memories.forget(JOB)
    assert len(memories) == 0
    memories.note_domain(JOB)
    assert len(memories) == 0


HAPPENS = st.lists(
    st.tuples(
        st.sampled_from(["check_at", "looked", "without_domain", "has_domain", "forget", "report"]), st.integers(0, 2)
    ),
    max_size=50,
)


def jobs_of_one_name(count: int) -> list[JobRequest]:
    return [JobRequest("ns", "js-a-0", f"uid-{number}") for number in range(count)]


@given(HAPPENS, st.booleans())
def test_what_is_remembered_ends(happens: list[tuple[str, int]], gone: bool):
    """With the Job, or when it has a domain and was looked at; the Job of the name that comes next inherits nothing."""
    memories, jobs, clock = JobMemories(), jobs_of_one_name(3), 0.0
    for what, number in happens:
        clock += REPORT_EVERY / 4
        request = jobs[number]
        match what:
            case "check_at":
                memories.check_at(request, clock, clock + 150.0)
            case "looked":
                memories.forget_due_checks(request, clock)
            case "without_domain":
                assert memories.without_domain_since(request, clock) <= clock
            case "has_domain":
                memories.note_domain(request)
            case "forget":
                memories.forget(request)
            case "report":
                assert 0 <= memories.begin_report(f"set-{number}", clock, REPORT_EVERY) <= REPORT_EVERY
        assert len(memories) <= len(jobs)
    new = JobRequest("ns", "js-a-0", "uid-new")
    assert memories.checks(new) == ()
    assert memories.without_domain_since(new, clock) == clock
    for request in (*jobs, new):
        if gone:
            memories.forget(request)
        else:
            memories.note_domain(request)
            memories.forget_due_checks(request, clock + 150.0)
    assert len(memories) == 0
    assert memories.begin_report("set-new", clock + REPORT_EVERY, REPORT_EVERY) == 0
    assert memories.begin_report("set-new", clock + REPORT_EVERY + 1, REPORT_EVERY) == REPORT_EVERY - 1
    assert memories._report_times.keys() == {"set-new"}
