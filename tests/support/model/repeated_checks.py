"""What a reconciler does again and again while pods wait, left out where a history has to come to rest."""

from typing import Any

from controllers.jobset.controller import JobSetReconciler


def leave_out_checks(reconciler: JobSetReconciler) -> None:
    """Let a reconciler not check for silent gangs and pending pods."""

    async def check(*_: Any) -> None: ...

    for waiting in (reconciler._stalled, reconciler._unscheduled):
        assert callable(waiting.check)
        waiting.check = check
