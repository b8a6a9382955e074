"""What the clients can do, as operations without IO: requests, their order, and what follows from the answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobset_client import core, explaining, strict
from jobset_client import logs as pod_logs
from jobset_client.core import Call, Deadline, Emit, Operation, ask
from jobset_client.errors import (
    ApiError,
    GoneError,
    JobSetError,
    NeverError,
    NotFoundError,
    RefusedError,
    UnreadableError,
    WaitTimeoutError,
)
from jobset_client.models import JobSet
from jobset_client.states import STATES, State, Wait, is_change, queue_of, queue_refusal, suspend_patch, title
from jobset_client.watching import Changes, Selection, read_all
from jobset_client.words import as_json, count_noun, did_you_mean, mapping, type_of

MOST_LISTED = 10_000
"""JobSets that `list` gives at most, unless the caller says more."""
_COMPARED = 100
"""Names that one which there is not is compared with."""
MERGE = "application/merge-patch+json"
_OF_THE_SERVER = {
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid",
}  # fmt: skip
"""What the API server writes about an object: a JobSet that was read is created again without it."""
_KUEUE = "/apis/kueue.x-k8s.io"
_INACTIVE = "spec.active: false"
_STRICT = (("fieldManager", core.FIELD_MANAGER), ("fieldValidation", "Strict"))


@dataclass(frozen=True, slots=True)
class Event:
    """A change. `type`: ADDED, MODIFIED or DELETED; the JobSet is as it was then.

    Of a JobSet that went while the watch was interrupted only name, namespace and UID are known.
    """

    type: str
    jobset: JobSet


def place(namespace: str | None, name: str = "") -> str:
    """Path of a JobSet, of those of a namespace, or of all (no namespace)."""
    where = core.GROUP if namespace is None else f"{core.GROUP}/namespaces/{core.check_name(namespace, 'namespace')}"
    return f"{where}/jobsets/{name}" if name else f"{where}/jobsets"


def create(js: JobSet, default: str, *, dry_run: bool, namespace: str | None = None) -> Operation[JobSet]:
    """Create it in the namespace that it names itself, else in the one that the caller says, else in the default."""
    given: object = js
    if not isinstance(given, JobSet):
        make = "from_yaml" if isinstance(given, str | bytes) else "from_dict"
        raise UnreadableError(f"create takes a JobSet, and this is {type_of(given)}: JobSet.{make}(...) makes one")
    own = js.metadata.namespace
    if own and namespace and own != namespace:
        raise UnreadableError(f"{title(js)} names another namespace than {namespace!r}: change one of them")
    where = own or namespace or default
    name = js.metadata.name or f"{js.metadata.generate_name or ''}..."
    query = (*_STRICT, ("dryRun", "All")) if dry_run else _STRICT
    body = js.to_dict()
    body.pop("status", None)
    body["metadata"] = {key: value for key, value in body.get("metadata", {}).items() if key not in _OF_THE_SERVER}
    task = f"create JobSet {where}/{name}"
    try:
        made = yield from ask(Call(method="POST", path=place(where), query=query, body=body, task=task))
    except ApiError as error:
        raise strict.name_fields(error, task) from None
    return JobSet.from_dict(made, keep_unknown=True)


def get(name: str, namespace: str) -> Operation[JobSet]:
    """Read one. Where there is none of that name, the error has those that there are, if they may be listed."""
    core.check_name(name)
    try:
        found = yield from ask(Call(method="GET", path=place(namespace, name), task=f"get JobSet {namespace}/{name}"))
    except NotFoundError as error:
        candidates = yield from _named_like(name, namespace)
        text = f"{error}; {candidates}" if candidates else str(error)
        raise NotFoundError(text, status=error.status, reason=error.reason, causes=error.causes) from None
    return JobSet.from_dict(found, keep_unknown=True)


def _named_like(name: str, namespace: str) -> Operation[str]:
    """The names of the first JobSets of the namespace, with the one that may be meant; empty if there are none."""
    query = (("limit", str(_COMPARED)),)
    try:
        page = yield from ask(Call(method="GET", path=place(namespace), query=query, task="list JobSets"))
    except JobSetError:
        return ""
    items = mapping(page).get("items")
    return did_you_mean(name, [str(mapping(mapping(item).get("metadata")).get("name")) for item in items or ()])


def list_(namespace: str | None, labels: str, most: int) -> Operation[list[JobSet]]:
    """Read all, page by page; more than `most` are an error and not a part of the truth."""
    bodies, _ = yield from read_all(_selection(namespace, labels=labels), f"list JobSets{_with_labels(labels)}", most)
    if bodies is None:
        raise JobSetError(
            f"there are more than {count_noun(most, 'JobSet')}: narrow it by namespace or labels, or raise most="
        )
    return [JobSet.from_dict(body, keep_unknown=True) for body in bodies]


def patch(name: str, namespace: str, changes: Mapping[str, Any]) -> Operation[JobSet]:
    """Change some of its fields, with the names of the API; None takes a field away (RFC 7396)."""
    core.check_name(name)
    given: object = changes
    if not isinstance(given, Mapping):
        example = '{"metadata": {"labels": {"team": "a"}}}'
        raise UnreadableError(f"patch takes a dict such as {example}, and this is {type_of(given)}")
    task = f"patch JobSet {namespace}/{name}"
    call = Call(
        method="PATCH", path=place(namespace, name), query=_STRICT, body=dict(changes), content=MERGE, task=task
    )
    try:
        changed = yield from ask(call)
    except ApiError as error:
        raise strict.name_fields(error, task) from None
    return JobSet.from_dict(changed, keep_unknown=True)


def delete(name: str, namespace: str, propagation: str) -> Operation[None]:
    """Ask for its end."""
    core.check_name(name)
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    task = f"delete JobSet {namespace}/{name}"
    yield from ask(Call(method="DELETE", path=place(namespace, name), body=options, task=task))


def watch(namespace: str | None, name: str, labels: str, timeout: float | None) -> Operation[None]:
    """Emit each JobSet that there is, and then each change, until the time is over."""
    changes = Changes(_selection(namespace, name, labels), f"watch JobSets{_with_labels(labels)}", Deadline(timeout))
    while (change := (yield from changes.next())) is not None:
        if change.type != "LISTED":
            yield Emit(Event(change.type, JobSet.from_dict(change.body, keep_unknown=True)))


def _with_labels(labels: str) -> str:
    return f" with labels {labels!r}" if labels else ""


def _selection(namespace: str | None, name: str = "", labels: str = "") -> Selection:
    if name:
        core.check_name(name)
    return Selection(place(namespace), labels=labels, fields=f"metadata.name={name}" if name else "")


def wait(name: str, namespace: str, state: State, timeout: float | None) -> Operation[JobSet]:
    """Wait until it is in the state; give it as it is then."""
    if state not in STATES:
        raise UnreadableError(f"{as_json(state)} is no state; there are: {', '.join(STATES)}")
    deadline = Deadline(timeout)
    try:
        first = yield from get(name, namespace)
    except NotFoundError as error:
        text = f"{error}; it was deleted before, or never created: it will never be {state}"
        raise GoneError(text, status=error.status, reason=error.reason) from None
    return (yield from until(first, state, deadline))


def until(first: JobSet, state: State, deadline: Deadline) -> Operation[JobSet]:
    """Wait until this very JobSet, and not a later one of its name, is in the state."""
    waiting = Wait(first, state)
    if waiting.is_over(first):
        return first
    waiting.start_list()
    namespace, name = first.metadata.namespace or "", first.metadata.name or ""
    changes = Changes(_selection(namespace, name), f"watch JobSet {namespace}/{name}", deadline)
    while (change := (yield from changes.next())) is not None:
        if change.type == "LISTED":
            waiting.end_list()
        elif change.type == "DELETED":
            waiting.delete()
        elif waiting.is_over(js := JobSet.from_dict(change.body, keep_unknown=True)):
            return js
    raise WaitTimeoutError(
        f"{title(first)}: not {state} after {deadline.seconds:g} s; explain({name!r}, namespace={namespace!r}) says"
        f" what it waits for, or `jobset explain {name} -n {namespace}`"
    )


def suspend(name: str, namespace: str) -> Operation[JobSet]:
    """End its pods and keep its Jobs."""
    js = yield from get(name, namespace)
    if not is_change(js, suspend=True):
        return js
    yield from _refuse_queued(js, f"would resume it at once; Kueue ends its pods where its Workload has {_INACTIVE}")
    return (yield from _write(js, suspend=True))


def resume(name: str, namespace: str) -> Operation[JobSet]:
    """Let its pods run again."""
    js = yield from get(name, namespace)
    if not is_change(js, suspend=False):
        return js
    yield from _refuse_queued(js, "resumes it when it admits it")
    return (yield from _write(js, suspend=False))


def restart(name: str, namespace: str, timeout: float | None) -> Operation[JobSet]:
    """Suspend it, wait until its Jobs are, and resume it."""
    deadline = Deadline(timeout)
    js = yield from get(name, namespace)
    if not is_change(js, suspend=True):
        raise RefusedError(f"{title(js)} is suspended: resume({name!r}, namespace={namespace!r}) starts its pods")
    again = f"Kueue ends its pods where its Workload has {_INACTIVE}, and starts them again with true"
    yield from _refuse_queued(js, f"decides when it runs; {again}")
    suspended = yield from _write(js, suspend=True)
    try:
        yield from until(suspended, "suspended", deadline)
        return (yield from _write(js, suspend=False))
    except NeverError:
        raise  # it has ended or is gone: there is nothing to resume
    except GeneratorExit:
        raise
    except BaseException as error:
        error.add_note(f"{title(js)} stays suspended until you call resume({name!r}, namespace={namespace!r})")
        raise


def logs(name: str, namespace: str, wanted: pod_logs.Wanted) -> Operation[None]:
    """Emit the logs of its pods."""
    js = yield from get(name, namespace)
    yield from pod_logs.logs(js, wanted)


def explain(name: str, namespace: str) -> Operation[explaining.Explanation]:
    """Say what it waits for, or how it ended, as far as it says so itself."""
    js = yield from get(name, namespace)
    return (yield from explaining.explain(js))


def _write(js: JobSet, *, suspend: bool) -> Operation[JobSet]:
    """Write `spec.suspend` of this very JobSet."""
    namespace, name = js.metadata.namespace or "", js.metadata.name or ""
    written = yield from ask(
        Call(
            method="PATCH",
            path=place(namespace, name),
            query=_STRICT,
            body=suspend_patch(js, suspend=suspend),
            content=MERGE,
            task=f"{'suspend' if suspend else 'resume'} JobSet {namespace}/{name}",
        )
    )
    return JobSet.from_dict(written, keep_unknown=True)


def _refuse_queued(js: JobSet, clause: str) -> Operation[None]:
    """Raise `RefusedError` for a JobSet of a queue, where there is Kueue."""
    if not queue_of(js):
        return
    try:
        yield from ask(Call(method="GET", path=_KUEUE, task="look for Kueue"))
    except NotFoundError:
        return
    raise queue_refusal(js, clause)
