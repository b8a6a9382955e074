"""The histories of `test_plan_properties` for sets whose Jobs are scheduled in groups.

What is judged in addition: no Job runs ahead of its tree or beside an earlier attempt in it, nothing foreign is changed,
and at rest there are exactly the groups that should be there.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from api import keys
from api.gangs import forest
from controllers.planning.child_jobs import integer
from tests.support.model.histories import Histories
from tests.support.model.moves import SIZES
from tests.support.model.setups import NAMES, SETUPS, SHAPES, SOME_GATES, in_groups
from tests.support.model.stale import GROUPS
from tests.support.objects.stored_sets import jobset

GANG_GATES = {"JobSetWorkloadAwareSchedulingAPI", "JobSetGangOfGangs"}
LATE = st.sampled_from([0, 0, 1, 2, 5])


class GangHistories(Histories):
    """Groups are lost, put right, and seen late."""

    @initialize(
        setup=SETUPS,
        shape=st.sampled_from(SHAPES),
        gates=SOME_GATES,
        old_server=st.booleans(),
        large=SIZES,
    )
    def start(self, setup, shape, gates, old_server, large):
        self.begin({**setup, "shape": shape}, gates | GANG_GATES, on_resume=False, old_server=old_server, large=large)

    def _events_arrive(self, data):
        if data.draw(st.booleans()):
            super()._events_arrive(data)
        else:
            self.replica.deliver(data.draw(st.sampled_from(list(GROUPS))), 1, twice=data.draw(st.booleans()))

    def _watch_expires(self, data):
        if data.draw(st.booleans()):
            super()._watch_expires(data)
        else:
            self.replica.relist(data.draw(st.sampled_from(list(GROUPS))), data.draw(LATE))

    def _service_is_deleted(self, data):
        """Or a group is, by a person."""
        places = [(plural, name) for plural in GROUPS for name in sorted(self.server.tables[plural].live)]
        if places:
            self.server.lose(*data.draw(st.sampled_from(places)))
        else:
            super()._service_is_deleted(data)

    def _change_placement(self, data):
        """Or other groups are asked for, which admission allows while no Job has pods."""
        if data.draw(st.booleans()):
            super()._change_placement(data)
            return
        idle = all(
            s.obj.spec.suspend and not s.obj.status.active for s in self.server.jobs.values() if self._runs(s.obj)
        )
        if self.alive() and self.js.spec.suspend and idle:
            names = NAMES[: len(self.js.spec.replicated_jobs)]
            other = jobset(scheduling=in_groups(data.draw(st.sampled_from(SHAPES)), names)).spec.scheduling
            self.server.edit(scheduling=other, suspend=data.draw(st.booleans()))

    def _runs(self, job):
        return job.outcome is None and not self._foreign(job)

    # The end

    def _right_jobs(self):
        super()._right_jobs()
        self._right_groups()

    def _held(self):
        """Pods of an earlier attempt are left, of a Job with invalid labels: a tree waits for them as a whole."""
        attempts = [s.meta["labels"].get(keys.RESTART_ATTEMPT) for s in self.server.tables["pods"].live.values()]
        return any(integer(attempt) != self.js.status.restarts for attempt in attempts)

    def _right_groups(self):
        js = self.js
        there = {plural: set(self.server.tables[plural].live) for plural in GROUPS}
        groups = there["podgroups"] | there["compositepodgroups"]
        if js.status.terminal_state:
            assert not groups, f"{groups} are there after the end"
            return
        if self._helpless():
            return
        odd = any(self._unmanaged(stored.obj) for stored in self.server.jobs.values())
        if js.spec.suspend:
            assert odd or not (groups or there["workloads"]), f"{groups} are there although the set is suspended"
            return
        wanted = forest(js)
        assert groups <= {group.name for group in wanted.groups()}
        assert there["workloads"] == ({wanted.workload} if wanted.roots else set())
        for name, stored in self.server.jobs.items():
            leaf = wanted.of_job(name)
            if leaf is not None and self._runs(stored.obj) and not self._unmanaged(stored.obj):
                assert stored.obj.spec.template.spec.pod_group == leaf.name
                # A Job with invalid labels never starts, and what comes after it in order stays suspended, without its groups.
                assert leaf.name in groups or (odd and stored.obj.spec.suspend)


@pytest.mark.no_cover
class TestGangHistories(GangHistories.TestCase):
    """A few hundred schedules, always."""

    settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
