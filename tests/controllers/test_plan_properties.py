"""Invariants of `plan` over random histories: what the Job controller, users and the garbage collector may do.

`World` itself refuses impossible states (two Jobs of one name, restarts that go down, a terminal state that is left).
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from api import keys
from api.indexes import parse_indexes
from tests.support.world import World, jobset, rjob

POLICIES = st.fixed_dictionaries(
    {
        "maxRestarts": st.integers(0, 3),
        "restartStrategy": st.sampled_from(["Recreate", "BlockingRecreate"]),
        "rules": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.just("rule"),
                    "action": st.sampled_from(
                        ["FailJobSet", "RestartJobSet", "RestartJob", "RestartJobAndIgnoreMaxRestarts"]
                    ),
                    "targetReplicatedJobs": st.sampled_from([[], ["a"], ["b"]]),
                }
            ),
            max_size=2,
        ),
    }
)


class Histories(RuleBasedStateMachine):
    """Plans are carried out at random moments, between random events."""

    @initialize(
        replicas=st.tuples(st.integers(0, 3), st.integers(1, 3)),
        order=st.sampled_from(["AnyOrder", "InOrder"]),
        policy=st.none() | POLICIES,
        suspend=st.booleans(),
    )
    def start(self, replicas, order, policy, suspend):
        a, b = replicas
        spec = {"failurePolicy": policy} if policy else {}
        js = jobset(rjob("a", a), rjob("b", b), startupPolicy={"startupPolicyOrder": order}, suspend=suspend, **spec)
        self.world = World(js, RestartJob=True)

    def pick(self, data, predicate):
        names = sorted(n for n, j in self.world.jobs.items() if predicate(j))
        return data.draw(st.sampled_from(names)) if names else None

    @rule()
    def reconcile(self):
        self.world.step()

    @rule(data=st.data(), ready=st.booleans())
    def run(self, data, ready):
        name = self.pick(data, self.world._may_run)
        if name:
            self.world.run(name, ready=ready)

    @rule(data=st.data(), succeeds=st.booleans())
    def finish(self, data, succeeds):
        name = self.pick(data, self.world._may_run)
        if name:
            self.world.finish(name, "Complete" if succeeds else "Failed", "BackoffLimitExceeded")

    @rule()
    def time_passes(self):
        self.world.seconds += 1

    @rule()
    def collect(self):
        self.world.collect()

    @rule(data=st.data())
    def job_vanishes(self, data):
        name = self.pick(data, lambda _: True)
        if name and self.world.finished(name):
            self.world.remove(name)
        elif name:
            del self.world.jobs[name]

    @rule(suspend=st.booleans())
    def flip(self, suspend):
        self.world.edit(suspend=suspend)

    @rule()
    def halt(self):
        self.world.halt()

    @rule()
    def service_vanishes(self):
        self.world.service = None

    @invariant()
    def counters_match_reality(self):
        status = self.world.status
        assert status.restarts >= status.restarts_count_towards_max
        assert len({s.name for s in status.replicated_jobs_status}) == len(status.replicated_jobs_status)

    @invariant()
    def no_false_end(self):
        ended = [c for c in self.world.status.conditions if c.type in {keys.COMPLETED, keys.FAILED}]
        assert len(ended) <= 1
        assert all(c.status == "True" for c in ended)
        assert bool(ended) == bool(self.world.status.terminal_state)

    @precondition(lambda self: self.world.status.terminal_state)
    @invariant()
    def nothing_starts_after_the_end(self):
        actions = self.world.plan().actions
        assert not any(type(a).__name__.startswith("Create") for a in actions)

    def teardown(self):
        """When nobody interferes any more, the set comes to rest, with every Job there that should be."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.halt()
        for _ in range(8):
            world.settle()
            world.collect()
            world.halt()
        world.settle()
        again = world.plan()
        assert again.actions == ()
        assert again.status is None
        if not world.status.terminal_state and world.js.spec.startup_policy.startup_policy_order != "InOrder":
            wanted = {f"js-{r.name}-{i}" for r in world.js.spec.replicated_jobs for i in range(r.replicas)}
            completed = {
                f"js-{s.name}-{i}"
                for s in world.status.replicated_jobs_status
                for i in parse_indexes(s.completed_indexes, 9)
            }
            assert set(world.live()) | completed == wanted
            assert all(j["spec"]["suspend"] == world.js.suspended for j in world.jobs.values() if world._may_run(j))


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
