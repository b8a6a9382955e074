"""Random histories of a JobSet that have to end with exactly the Jobs that should be there."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from api import keys
from api.batch import Job, is_job_ready
from api.indexes import parse_indexes
from api.restart_agent import jobs_without_agent
from api.suspension import deletes_jobs_on_suspend
from controllers.planning.child_jobs import integer
from tests.support.model.moves import SIZES, Moves
from tests.support.model.pod_moves import AGENT_MOVES, CROWDED_MOVES
from tests.support.model.replica import REQUEST
from tests.support.model.setups import CROWDED, IN_PLACE, NAMES, RULED, SOME_GATES

ROUNDS = 120
"""Rounds in which a set has to come to rest without interference; each is one plan or one move of the cluster."""
ROUNDS_OF_A_SECOND = 20
"""Rounds after which the clock moves by a second. Creation times are whole seconds, and so a pod that is replaced in
the second in which it was created is taken for the one that has to leave."""

schedules = {"run": 0}
"""How many schedules were run in this process."""


class Histories(Moves):
    """At the end of its moves the set comes to rest, and completes when its Jobs do."""

    def teardown(self):
        """Without further interference the set comes to rest, and every Job that should exist does."""
        schedules["run"] += 1
        try:
            if not self.sound:
                return
            self._come_to_rest()
            if self.server.jobset is not None:
                self._right_jobs()
                self._one_attempt_runs()
                self._nothing_to_do()
                self._all_complete()
        finally:
            if hasattr(self, "loop"):
                self.loop.close()

    def _come_to_rest(self):
        """The process plans only after an event, or when it has asked for another look."""
        self.server.stuck.clear()
        for node in list(self.server.failed_nodes):
            self.server.node_returns(node)
        for name, stored in list(self.server.jobs.items()):
            if self._foreign(stored.obj):
                self.server.drop("jobs", name)
        for number in range(1, ROUNDS + 1):
            self.server.seconds += not number % ROUNDS_OF_A_SECOND
            before = self.server.version
            self._cluster_moves()
            self.replica.catch_up()
            if REQUEST in self.replica.queue:
                self.replica.reconcile()
            elif self.replica.due is not None:
                self.server.seconds = max(self.server.seconds, int(self.replica.due) + 1)
                self.replica.reconcile()
            elif before == self.server.version:
                return
        raise AssertionError(f"no rest after {ROUNDS} rounds")

    def _foreign(self, job: Job) -> bool:
        owner = job.metadata.controller()
        return owner is None or owner.kind != keys.KIND

    def _unmanaged(self, job: Job) -> bool:
        return job.metadata.uid not in self.ledger.places or job.metadata.uid in self.ledger.broken

    def _right_jobs(self):
        js, status = self.ledger.sized(self.js), self.js.status
        if status.terminal_state:
            running = [n for n, s in self.server.jobs.items() if s.obj.outcome is None]
            assert not running, f"{running} run after the end"
            return
        if self._helpless():
            return
        entries = {of.name: of for of in status.replicated_jobs_status}
        for number, of in enumerate(js.spec.replicated_jobs):
            completed = parse_indexes(entries[of.name].completed_indexes, of.replicas)
            wanted = {f"js-{of.name}-{i}" for i in range(of.replicas)} - {f"js-{of.name}-{i}" for i in completed}
            jobs = {n: s.obj for n, s in self.server.jobs.items() if n.startswith(f"js-{of.name}-")}
            ours = {n: j for n, j in jobs.items() if not self._unmanaged(j) and j.outcome is None}
            extra = ours.keys() - wanted
            assert not extra, f"{sorted(extra)} should not be there"
            missing = wanted - jobs.keys()
            released = self._released(number)
            if released and not self._held():
                assert not missing, f"{sorted(missing)} are missing"
            for name, job in ours.items():
                assert integer(job.metadata.labels[keys.RESTART_ATTEMPT]) == status.restarts
                if js.spec.suspend or released:
                    assert job.spec.suspend == bool(js.spec.suspend), f"{name} has suspend={job.spec.suspend}"
                if js.spec.suspend and deletes_jobs_on_suspend(js, self.gates):
                    assert job.status.start_time is None, f"{name} keeps what has succeeded"
                if self.gates["ElasticJobSet"]:
                    assert (job.spec.parallelism, job.spec.completions) == (of.parallelism, of.completions)
            counted = entries[of.name]
            ready = sum(is_job_ready(j) for j in ours.values())
            suspended = sum(j.spec.suspend for j in ours.values())
            active = sum(j.status.active > 0 for j in ours.values())
            assert (counted.ready, counted.suspended, counted.active) == (ready, suspended, active)

    def _one_attempt_runs(self):
        """Where workers restart in place, all run the attempt that the status says, if all Jobs are there."""
        js, early = self.ledger.sized(self.js), jobs_without_agent(self.js)
        if not js.restarts_in_place or js.spec.suspend or js.status.terminal_state or self._helpless():
            return
        with_agents = [of for of in js.spec.replicated_jobs if of.name not in early]
        names = [f"js-{of.name}-{i}" for of in with_agents for i in range(of.replicas)]
        jobs = [self.server.jobs[name].obj for name in names if name in self.server.jobs]
        one_pod_each = all(of.parallelism == 1 for of in with_agents)
        whole = len(jobs) == len(names) and not any(self._unmanaged(job) or job.outcome for job in jobs)
        if one_pod_each and whole and not any(entry.succeeded for entry in js.status.replicated_jobs_status):
            run = {job.metadata.name: self.agents.runs(job.metadata.uid) for job in jobs}
            current = js.status.current_in_place_restart_attempt
            assert set(run.values()) <= {current}, f"{run}, released is {current}"
            assert not jobs or current is not None

    def _helpless(self) -> bool:
        """A rule asks for what its gate does not allow: the set waits for a person."""
        return bool(self.ledger.failed_in(self.js)) and not self.gates["RestartJob"]

    def _held(self) -> bool:
        """Whether Jobs wait for what does not end by itself."""
        return False

    def _released(self, number: int) -> bool:
        """Whether a stage may have started; the cluster has made ready whatever runs."""
        js = self.ledger.sized(self.js)
        policy = js.spec.execution_policy
        if js.spec.suspend:
            waits = js.spec.replicated_jobs[number].depends_on or (policy and number)
            return not self.on_resume and not waits
        entries = {of.name: of for of in js.status.replicated_jobs_status}
        alone = policy and (policy.sequential_replicated_jobs or len(NAMES))
        for before in js.spec.replicated_jobs[: min(number, alone)] if policy else ():
            of = entries[before.name]
            if of.succeeded + (0 if policy.replicated_jobs_status == "Succeeded" else of.ready) < before.replicas:
                return False
        for before in js.spec.replicated_jobs[:number]:
            of = entries[before.name]
            in_order = js.spec.startup_policy.startup_policy_order == "InOrder"
            for dep in js.spec.replicated_jobs[number].depends_on or ():
                if dep.name == before.name:
                    reached = of.succeeded + (of.ready if dep.status == "Ready" else 0)
                    if reached < before.replicas:
                        return False
            if in_order and of.succeeded + of.ready < before.replicas:
                return False
        return True

    def _nothing_to_do(self):
        """A process that starts now finds everything as it should be."""
        live = {stored.obj.metadata.uid for stored in self.server.jobs.values()}
        if self._helpless() and self.ledger.failed_in(self.js) - live:
            # A failed Job that is gone is known to the process that saw it go, and to no other.
            return
        fresh = self.process()
        assert fresh.reconcile() == 0, "a new process writes although nothing was left to do"

    def _all_complete(self):
        """Every Job completes: so does the set."""
        for _ in range(len(NAMES) + 1):
            for name, stored in list(self.server.jobs.items()):
                if self.server.runnable(stored.obj):
                    self.server.finish(name, "Complete")
            self._come_to_rest()
            if self.server.jobset is None:
                return
        blocked = any(self._unmanaged(s.obj) for s in self.server.jobs.values())
        if not self.js.spec.suspend and not blocked and not self._helpless():
            assert self.js.status.terminal_state, "every Job has completed, the set has not"


class RuledHistories(Histories):
    """The same where rules restart single Jobs and ReplicatedJobs: among all sets those are few."""

    @initialize(setup=RULED, gates=SOME_GATES, old_server=st.booleans(), large=SIZES)
    def start(self, setup, gates, old_server, large):
        self.begin(setup, gates | {"RestartJob"}, on_resume=False, old_server=old_server, large=large)


class InPlaceHistories(Histories):
    """The same where all workers restart in place, and more happens to them than to their Jobs."""

    @initialize(
        setup=IN_PLACE,
        gates=SOME_GATES,
        old_server=st.booleans(),
        large=SIZES,
    )
    def start(self, setup, gates, old_server, large):
        self.begin(setup, gates, on_resume=False, old_server=old_server, large=large)

    @rule(move=st.sampled_from(AGENT_MOVES), data=st.data())
    def move_agents(self, move, data):
        self.move(move, data)


class CrowdedHistories(Histories):
    """The same in a cluster without room, where sets continue with fewer Jobs."""

    @initialize(setup=CROWDED, gates=SOME_GATES, old_server=st.booleans(), large=SIZES)
    def start(self, setup, gates, old_server, large):
        self.begin(setup, gates | {"JobSetElasticReplicas"}, on_resume=False, old_server=old_server, large=large)

    @rule(move=st.sampled_from(CROWDED_MOVES), data=st.data())
    def move_pods(self, move, data):
        self.move(move, data)
