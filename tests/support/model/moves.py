"""Random moves of a cluster, of its users and of one controller process, in any order.

The cluster is `tests.support.model.stale` (Job controller, garbage collector), the process is `tests.support.model.replica`.
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from api import keys
from api.features import FeatureGates
from api.jobset import JobSet
from controllers.planning.limits import Limits
from tests.support.model.agents import Agents
from tests.support.model.ledger import Ledger
from tests.support.model.pod_moves import PodMoves
from tests.support.model.replica import NONE, Crash, Fault, ModelTimeLoop, Replica
from tests.support.model.setups import SETUPS, SOME_GATES, spec_of, with_placement
from tests.support.model.stale import KINDS, Server, failed_pod

FAULTS = st.just(NONE) | st.builds(
    Fault,
    st.sampled_from(["crash before", "crash after", "refuse", "lose answer", "meanwhile", "silence"]),
    st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5]),
)
BEHIND = st.just({}) | st.fixed_dictionaries({}, optional={kind: st.integers(1, 10) for kind in (*KINDS, "agents")})
FLIPS = st.sampled_from([False, False, True])
REASONS = st.sampled_from(["BackoffLimitExceeded", "PodFailurePolicy", "DeadlineExceeded"])
CODES = st.sampled_from([3, 5])
MOVES = {
    "plan": 6,
    "plan_on_what_is_seen": 4,
    "all_goes_well": 4,
    "jobs_arrive": 3,
    "old_pods_arrive": 2,
    "old_pods_end": 1,
    "events_arrive": 1,
    "watch_expires": 1,
    "process_restarts": 2,
    "job_fails": 5,
    "job_is_doomed": 2,
    "job_completes": 2,
    "job_runs": 2,
    "job_is_not_ready": 1,
    "finished_job_goes": 1,
    "job_is_deleted": 1,
    "cluster_runs": 2,
    "cluster_halts": 1,
    "cluster_collects": 2,
    "node_fails": 2,
    "node_returns": 1,
    "node_is_drained": 2,
    "pod_is_evicted": 2,
    "drain_ends": 1,
    "pod_is_late": 2,
    "room_is_gone": 2,
    "agent_acts": 2,
    "agents_act": 1,
    "worker_fails": 1,
    "flip": 1,
    "change_placement": 1,
    "scale": 2,
    "seldom": 2,
}
"""What may happen next, and how often. Weights, and no rule of its own for each: Hypothesis switches rules off at random,
and most schedules would lack one of those that make a story together."""
SELDOM = (
    "service_is_deleted",
    "jobset_is_deleted",
    "jobset_goes_at_once",
    "somebody_takes_a_name",
    "somebody_takes_a_name_unlabelled",
    "job_with_bad_labels_takes_a_name",
    "stray_job_appears",
    "label_is_broken",
    "foreign_job_goes",
    "job_stays_in_deletion",
    "job_gets_a_finalizer",
)
SIZES = st.sampled_from([10, 1, 1, 3])
"""Jobs from which on a set counts as large. With 1, each that restarts is deleted collectively; with 10, none is."""


class Moves(PodMoves, RuleBasedStateMachine):
    """Plans are carried out at random moments, between random events. `sound`: no rule was broken so far."""

    sound = False

    @initialize(
        setup=SETUPS,
        gates=SOME_GATES,
        on_resume=st.sampled_from([False, False, True]),
        old_server=st.booleans(),
        large=SIZES,
    )
    def start(self, setup, gates, on_resume, old_server, large):
        self.begin(setup, gates, on_resume, old_server, large)

    def begin(self, setup, gates, on_resume, old_server, large):
        self.limits = Limits(batch_deletion_from=large, jobs_per_deletion=2)
        self.on_resume = on_resume
        policy = setup["policy"]
        in_place = policy is not None and policy["restartStrategy"] == "InPlaceRestart"
        wanted = {"InPlaceRestart": in_place, "JobSetSuspensionOptions": setup.get("deletes", False)}
        self.gates = FeatureGates(dict.fromkeys(gates, True) | wanted)
        self.ledger = Ledger(self.gates, create_suspended=not on_resume)
        self.server = Server(self.ledger, old=old_server)
        self.agents = Agents(self.server)
        self.ledger.spec_of = lambda: self.server.jobset
        self.ledger.lost, self.ledger.nodeless = self.server.lost_jobs, self.server.waits_for_a_node
        self.ledger.without_room = self.server.without_room
        self.loop = ModelTimeLoop(lambda: float(self.server.seconds))
        self.template = spec_of(**setup)
        self.server.new_jobset(self.template)
        self.replica = self.process()
        self.replica.reconcile()
        self.sound = True

    def process(self, behind=None):
        suspended = not self.on_resume
        return Replica(
            self.server, self.loop, self.gates, create_suspended=suspended, limits=self.limits, behind=behind
        )

    def pick(self, data, predicate):
        names = sorted(n for n, stored in self.server.jobs.items() if predicate(stored.obj))
        return data.draw(st.sampled_from(names)) if names else None

    @property
    def js(self) -> JobSet:
        assert self.server.jobset is not None
        return self.server.jobset

    def alive(self) -> bool:
        js = self.server.jobset
        return js is not None and js.metadata.deletion_timestamp is None

    @rule(move=st.sampled_from([name for name, weight in MOVES.items() for _ in range(weight)]), data=st.data())
    def move(self, move, data):
        if self.server.jobset is None and data.draw(st.booleans()):
            self.server.new_jobset(self.template)
        self.sound = False
        getattr(self, f"_{move}")(data)
        self.sound = True

    # The controller

    def _plan(self, data):
        self.replica.catch_up()
        self._plan_on_what_is_seen(data)

    def _plan_on_what_is_seen(self, data):
        def meanwhile():
            if data.draw(st.booleans()):
                self._cluster_runs(data)
                return
            if self.alive():
                self.server.edit(suspend=data.draw(FLIPS))
            self.replica.deliver("jobsets")

        try:
            self.replica.reconcile(data.draw(FAULTS), meanwhile)
        except Crash:
            self._process_restarts(data)

    def _process_restarts(self, data):
        self.replica = self.process(data.draw(BEHIND))
        if data.draw(st.booleans()):
            self.replica.reconcile()

    def _old_pods_arrive(self, data):
        if data.draw(FLIPS):
            self.replica.old_pods.relist()
        else:
            self.replica.old_pods.arrive(data.draw(st.integers(1, 3)))

    def _old_pods_end(self, data):
        """Of one Job that was deleted in the background."""
        left = sorted(self.server.orphans())
        if left:
            self.server.end_pods(data.draw(st.sampled_from(left)))

    def _all_goes_well(self, _data):
        """Time passes, pods run, what is deleted goes, and the controller gets all events."""
        self.server.seconds += 3
        for _ in range(3):
            self._cluster_moves()
            self.replica.catch_up()
            self.replica.reconcile()

    def _jobs_arrive(self, data):
        self.replica.deliver("jobs", data.draw(st.integers(1, 5)))

    def _events_arrive(self, data):
        self.replica.deliver(data.draw(self._kinds()), 1, twice=data.draw(st.booleans()))

    def _watch_expires(self, data):
        """Events since the last one are never delivered, only the state after them, from a server that may be behind."""
        kind = data.draw(self._kinds())
        behind = data.draw(st.sampled_from([0, 0, 1, 2, 5, 10]))
        self.replica.relist(kind, behind)

    def _kinds(self):
        """What is watched, Jobs and agents more often."""
        return st.sampled_from(["jobs", *KINDS, *(["agents"] * 2 if self.gates["InPlaceRestart"] else [])])

    # The cluster

    def _job_fails(self, data):
        name = self.pick(data, self._may_end)
        if name and self.server.job(name).is_failing:
            self._fulfil(name)
        elif name:
            self.server.finish(name, "Failed", *self._why(data, name))

    def _job_is_doomed(self, data):
        """It will fail, and its pods end."""
        name = self.pick(data, lambda job: self._may_end(job) and not job.is_failing)
        if name:
            self.server.doom(name, *self._why(data, name))

    def _why(self, data, name):
        """Reason and message with which a Job fails, by the exit code of its pod."""
        reason, code = data.draw(REASONS), data.draw(CODES)
        self.ledger.codes[self.server.job(name).metadata.uid] = code
        said = f"Container main for pod ns/{failed_pod(name)} failed with exit code {code} matching FailJob rule at index 0"
        return reason, said if reason == "PodFailurePolicy" else "boom"

    def _fulfil(self, name):
        """A doomed Job fails, for the reason that it gave."""
        failure = self.server.job(name).failure
        self.server.finish(name, "Failed", failure.reason, failure.message)

    def _job_completes(self, data):
        name = self.pick(data, lambda job: self._may_end(job) and not job.is_failing and not self._waits(job))
        if name:
            self.server.finish(name, "Complete")

    def _waits(self, job):
        """Whether its worker waits at the barrier."""
        uid = job.metadata.uid
        return f"pod-of-{uid}" in self.agents.pods() and self.agents.runs(uid) is None

    def _may_end(self, job):
        return job.outcome is None and bool(self.server.runnable(job) or job.status.active)

    def _job_runs(self, data):
        name = self.pick(data, self.server.runnable)
        if name:
            self.server.run(name, ready=True)

    def _job_is_not_ready(self, data):
        name = self.pick(data, self.server.runnable)
        if name:
            self.server.run(name, ready=False)

    def _finished_job_goes(self, data):
        """Its own time to live is over."""
        self._delete(data, self.pick(data, lambda job: job.outcome))

    def _job_is_deleted(self, data):
        """By a person."""
        self._delete(data, self.pick(data, lambda _: True))

    def _delete(self, data, name):
        if name and data.draw(st.booleans()):
            self.server.lose_job(name)
        elif name:
            self.server.terminate("jobs", name)

    def _cluster_runs(self, _data):
        self.server.seconds += 1
        for name, stored in list(self.server.jobs.items()):
            if self.server.runnable(stored.obj):
                self.server.run(name, ready=True)

    def _cluster_halts(self, _data):
        for name, stored in list(self.server.jobs.items()):
            if self.server.haltable(stored.obj):
                self.server.halt(name)

    def _cluster_collects(self, _data):
        self.server.seconds += 1
        self.server.collect()

    # Users

    def _flip(self, data):
        if self.alive():
            self.server.edit(suspend=data.draw(FLIPS))

    def _change_placement(self, data):
        """What a queue does: other scheduling fields, in the same update with the flip or while suspended."""
        suspend = data.draw(st.booleans())
        if not self.alive() or not (self.js.spec.suspend or suspend):
            return
        zone = data.draw(st.sampled_from(["", "x", "y"]))
        resources = self.gates["MutablePodResourcesForSuspendedJobSets"]
        rjobs = tuple(with_placement(r, zone, resources=resources) for r in self.js.spec.replicated_jobs)
        self.server.edit(replicated_jobs=rjobs, suspend=suspend)

    def _scale(self, data):
        if not self.gates["ElasticJobSet"] or not self.alive() or self.js.status.terminal_state:
            return
        rjobs = self.js.spec.replicated_jobs
        index, replicas, size = data.draw(
            st.tuples(st.integers(0, len(rjobs) - 1), st.integers(0, 3), st.sampled_from([1, 1, 2]))
        )
        old = rjobs[index]
        if not replicas and old.replicas and self._needed(old, rjobs):
            return
        spec = {**old.template["spec"], "parallelism": size, "completions": size}
        new = replace(old, replicas=replicas, template={**old.template, "spec": spec})
        self.server.edit(replicated_jobs=(*rjobs[:index], new, *rjobs[index + 1 :]))

    def _needed(self, rjob_, rjobs):
        """Whether admission keeps it from having no Jobs."""
        policy = self.js.spec.success_policy
        targets = policy.target_replicated_jobs if policy else ()
        awaited = any(d.name == rjob_.name for r in rjobs for d in r.depends_on or ())
        return awaited or rjob_.name in targets or sum(r.replicas for r in rjobs) == rjob_.replicas

    def _seldom(self, data):
        getattr(self, f"_{data.draw(st.sampled_from(SELDOM))}")(data)

    def _service_is_deleted(self, _data):
        if "js" in self.server.tables["services"].live:
            self.server.drop("services", "js")

    def _jobset_is_deleted(self, _data):
        if self.alive():
            self.server.terminate("jobsets", "js")

    def _jobset_goes_at_once(self, _data):
        """Its Jobs stay until the garbage collector finds them."""
        if self.server.jobset:
            self.server.drop("jobsets", "js")

    def _somebody_takes_a_name(self, data):
        name = self._free_name(data)
        if name:
            self.server.intrude(name, owner=("CronJob", "other"), labels={keys.JOBSET_NAME: "js"})

    def _somebody_takes_a_name_unlabelled(self, data):
        name = self._free_name(data)
        if name:
            self.server.intrude(name, owner=None, labels=None)

    def _job_with_bad_labels_takes_a_name(self, data):
        self._add_job_with_bad_labels(
            self._free_name(data), {keys.RESTART_ATTEMPT: data.draw(st.sampled_from(["x", "-1", "7"]))}
        )

    def _stray_job_appears(self, _data):
        self._add_job_with_bad_labels("js-stray", {keys.REPLICATED_JOB_NAME: "a", keys.RESTART_ATTEMPT: "0"})

    def _add_job_with_bad_labels(self, name, labels):
        if name and name not in self.server.jobs and self.server.jobset:
            owner = keys.KIND, self.js.metadata.uid
            self.server.intrude(name, owner=owner, labels={keys.JOBSET_NAME: "js", **labels})

    def _label_is_broken(self, data):
        name = self.pick(data, lambda job: job.metadata.uid in self.ledger.places)
        if name:
            self.server.break_label(name, keys.RESTART_ATTEMPT, "broken")

    def _foreign_job_goes(self, data):
        name = self.pick(data, lambda job: job.metadata.uid not in self.ledger.places)
        if name:
            self.server.drop("jobs", name)

    def _job_stays_in_deletion(self, data):
        name = self.pick(data, lambda job: job.metadata.deletion_timestamp is not None)
        if name:
            self.server.stuck.add(name)

    def _job_gets_a_finalizer(self, data):
        """Somebody else's, and possibly while it is being deleted with others: then it stays until it is collected."""
        name = self.pick(data, lambda job: job.metadata.deletion_timestamp is None)
        if name:
            self.server.hold(name)

    def _free_name(self, data):
        """A free name that the set wants."""
        if self.server.jobset is None:
            return None
        free = [f"js-{r.name}-{i}" for r in self.js.spec.replicated_jobs for i in range(r.replicas)]
        free = [name for name in free if name not in self.server.jobs]
        return data.draw(st.sampled_from(free)) if free else None
