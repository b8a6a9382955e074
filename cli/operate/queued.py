"""A JobSet of a Kueue queue: whether Kueue decides when it runs, and how to ask Kueue for what a command would do."""

from api.jobset import JobSet
from api.keys import QUEUE_NAME
from cli import session
from diagnose import kueue


async def refuse_resume(to: session.Session, js: JobSet, title: str) -> None:
    """Raise `RefusedError` where Kueue resumes a suspended JobSet."""
    if queue := await _queue(to, js):
        raise session.RefusedError(
            f"{title} is in the Kueue queue {queue}, which resumes it when it admits it:"
            f" {kueue.workloads_of(js)} says when"
        )


async def refuse_suspend(to: session.Session, js: JobSet, title: str) -> None:
    """Raise `RefusedError` where Kueue would resume a JobSet that somebody else suspends."""
    if queue := await _queue(to, js):
        raise session.RefusedError(
            f"{title} is in the Kueue queue {queue}, which would resume it at once. Kueue ends its pods and keeps it"
            f" suspended: {_active(js, 'false')}; with true it may be admitted again"
        )


async def refuse_restart(to: session.Session, js: JobSet, title: str) -> None:
    """Raise `RefusedError` where Kueue decides when the pods of a JobSet are started again."""
    if queue := await _queue(to, js):
        meta = js.metadata
        raise session.RefusedError(
            f"{title} is in the Kueue queue {queue}, which decides when it runs. Kueue ends its pods, and starts them"
            f" again when it admits it once more: {_active(js, 'false')}"
            f" && jobset wait {meta.name} -n {meta.namespace} --for=suspended && {_active(js, 'true')}"
        )


def _active(js: JobSet, value: str) -> str:
    patch = f'{{"spec":{{"active":{value}}}}}'
    return f"kubectl patch -n {js.metadata.namespace} $({kueue.workloads_of(js)} -o name) --type=merge -p '{patch}'"


async def _queue(to: session.Session, js: JobSet) -> str:
    """The queue that Kueue has it in; empty where there is none."""
    queue = js.metadata.labels.get(QUEUE_NAME, "")
    return queue if queue and await to.client.serves(kueue.GROUP) else ""
