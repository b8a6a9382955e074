"""Random moves of nodes, of pods that do not start, and of agents for restarts in place."""

from hypothesis import strategies as st

from api.batch import is_job_ready
from controllers.planning.node_failure import OUT_OF_SERVICE, UNREACHABLE

TAINTS = st.sampled_from([UNREACHABLE, UNREACHABLE, OUT_OF_SERVICE, ""])
"""What a node has once it has failed; "": it is gone."""
AGENT_MOVES = (
    "plan",
    "plan_on_what_is_seen",
    "events_arrive",
    "agent_acts",
    "agents_act",
    "worker_fails",
    "worker_fails",
    "node_fails",
    "node_is_drained",
    "pod_is_evicted",
    "pod_is_late",
    "room_is_gone",
    "all_goes_well",
    "all_goes_well",
    "all_goes_well",
)
"""Those that make restarts in place, and what follows from them."""
CROWDED_MOVES = (
    "room_is_gone",
    "room_is_gone",
    "room_is_gone",
    "plan",
    "plan_on_what_is_seen",
    "events_arrive",
    "process_restarts",
    "job_fails",
    "job_completes",
    "flip",
    "scale",
    "all_goes_well",
    "all_goes_well",
)
"""Those that make sets smaller, and what else changes their size."""


class PodMoves:
    """The part of `Moves` that moves what is below the Jobs."""

    def _node_fails(self, data):
        nodes = sorted(self.server.tables["nodes"].live.keys() - self.server.failed_nodes)
        if self.gates["JobSetNodeFailure"] and nodes:
            self.server.fail_node(data.draw(st.sampled_from(nodes)), data.draw(TAINTS))

    def _node_returns(self, data):
        if self.server.failed_nodes:
            self.server.node_returns(data.draw(st.sampled_from(sorted(self.server.failed_nodes))))

    def _node_is_drained(self, data):
        nodes = sorted(
            self.server.tables["nodes"].live.keys() - self.server.drained.keys() - self.server.failed_nodes.keys()
        )
        if self.gates["JobSetNodeMaintenance"] and nodes:
            self.ledger.drains += 1
            self.server.drain_node(data.draw(st.sampled_from(nodes)), timed=data.draw(st.booleans()))
            self.server.seconds += data.draw(st.sampled_from([0, 3]))

    def _pod_is_evicted(self, data):
        """By the Eviction API. Its kubelet may still not have ended it a while later."""
        if names := self.server.evictable():
            self.ledger.drains += 1
            self.server.evict(data.draw(st.sampled_from(names)))
            self.server.seconds += data.draw(st.sampled_from([0, 1]))

    def _drain_ends(self, data):
        if self.server.drained:
            self.server.end_drain(data.draw(st.sampled_from(sorted(self.server.drained))))

    def _pod_is_late(self, data):
        """It is another one that waits for its image, and after a while the controller may look."""
        name = self.pick(data, self.server.runnable) if self.gates["JobSetStartTimeout"] else None
        if name:
            self.server.pend(name)
            self.server.seconds += data.draw(st.sampled_from([1, 2, 4, 6]))
            self._plan(data)

    def _room_is_gone(self, data):
        """The pod of a Job is another one for which no node has room, and after a while the controller may look."""
        name = self.pick(data, self.server.runnable) if self.gates["JobSetElasticReplicas"] else None
        if name:
            self.server.lose_room(name)
            self.server.seconds += data.draw(st.sampled_from([1, 2, 4, 6]))
            self._plan(data)

    def _agent_acts(self, data):
        if names := self.agents.pods():
            self.agents.act(data.draw(st.sampled_from(names)))

    def _agents_act(self, _data):
        self.agents.act_all()

    def _worker_fails(self, data):
        """The agent ends with it, the kubelet starts both again, and possibly nothing else is in the way."""
        if names := self.agents.pods():
            self.agents.restart(data.draw(st.sampled_from(names)))
            if data.draw(st.booleans()):
                self._all_goes_well(data)

    def _cluster_moves(self):
        """What the Job controller, the garbage collector, kubelets and agents do if all goes well."""
        server = self.server
        server.collect()
        server.make_room()
        server.end_deleted_pods()
        for uid in server.orphans():
            server.end_pods(uid)
        for name, stored in list(server.jobs.items()):
            job = stored.obj
            if job.is_failing and job.outcome is None:
                self._fulfil(name)
            elif server.haltable(job):
                server.halt(name)
            elif server.runnable(job) and not (job.status.active and is_job_ready(job) and server.pod_of(stored.uid)):
                server.run(name, ready=True)
        self.agents.act_all()
