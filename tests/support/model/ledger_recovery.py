"""What `status.recovery` may become: the part of the ledger that judges the times of attempts."""

from datetime import datetime

from api.jobset_status import JobSetStatus
from api.recovery_times import AttemptTimes, Recovery
from kube.model.meta import seconds_between

Said = tuple[int | str | None, ...]
"""What an entry says that does not change once it is over."""


class RecoveryRules:
    """Seconds are counted once and never taken back, and what is over does not change."""

    def _recovery(self, uid: str, old: JobSetStatus, new: JobSetStatus, now: datetime) -> None:
        before, after = old.recovery or Recovery(), new.recovery
        if not self.gates["JobSetRecoveryTimes"]:
            assert after is None, "times that nobody asked for"
            return
        if after is None:
            assert new.execution_attempts is None, "an attempt without times"
            return
        # The first seconds are those after the plan, which may be older than its write.
        first = self.counted_from.setdefault(uid, after.since or now.isoformat())
        assert not after.since or seconds_between(after.since, now.isoformat()) >= 0, "seconds to come are counted"
        ran, lost = after.running_seconds, after.lost_seconds
        assert 0 <= before.running_seconds <= ran, "seconds that ran are taken back"
        assert 0 <= before.lost_seconds <= lost, "lost seconds are taken back"
        assert 0 <= before.spare_seconds <= after.spare_seconds, "seconds of spares are taken back"
        assert ran + lost <= seconds_between(first, now.isoformat()), f"{ran} + {lost} s are more than there were"
        assert not after.running or after.since, "it runs, and nobody knows since when"
        if not after.since:
            self.paused.add(uid)
            assert new.terminal_state or not after.running
        elif uid not in self.paused:
            assert ran + lost == seconds_between(first, after.since), "some seconds are neither running nor lost"
        self._entries(before.attempts, after.attempts)
        assert sum(entry.running_seconds for entry in after.attempts) <= ran, "attempts ran for longer than the set"
        assert all(entry.attempt <= (new.execution_attempts or 0) for entry in after.attempts)

    @staticmethod
    def _entries(before: tuple[AttemptTimes, ...], after: tuple[AttemptTimes, ...]) -> None:
        assert len(after) <= 10, "too many entries"
        assert [entry.attempt for entry in after] == sorted(entry.attempt for entry in after)
        for entry in after:
            phases = (
                entry.detected_after_seconds,
                entry.drained_after_seconds,
                entry.created_after_seconds,
                entry.ready_after_seconds,
            )
            known = [seconds for seconds in phases if seconds is not None]
            assert known == sorted(known), f"{known} go backwards"
            assert all(seconds >= 0 for seconds in known)
        over, now = [_said(entry) for entry in before if entry.ready_after_seconds is not None], [*map(_said, after)]
        while over and not _in_order(over, now):
            assert len(after) == 10, f"{over[0]} becomes another one of {now}"
            over = over[1:]  # the oldest make room


def _in_order(some: list[Said], of: list[Said]) -> bool:
    """Whether they stand there in this order, others between them or not."""
    rest = iter(of)
    return all(one in rest for one in some)


def _said(entry: AttemptTimes) -> Said:
    return (
        entry.attempt,
        entry.since,
        entry.detected_after_seconds,
        entry.drained_after_seconds,
        entry.created_after_seconds,
        entry.ready_after_seconds,
    )
