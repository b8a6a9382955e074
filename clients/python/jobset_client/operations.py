"""The methods of both clients as operations without IO: requests, their order, and the handling of answers.

The public operations are the methods of both clients, with the same docstrings and arguments, except `home`, which is
the client's namespace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobset_client import core, explaining, strict
from jobset_client import logs as pod_logs
from jobset_client.core import Call, Deadline, Emit, Emitter, Operation, ask
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
from jobset_client.states import (
    STATES,
    State,
    Wait,
    is_change,
    queue_of,
    queue_refusal,
    scale_patch,
    suspend_patch,
    title,
)
from jobset_client.watching import Changes, Selection, read_all
from jobset_client.words import as_json, as_mapping, count_noun, did_you_mean, type_of

MAX_LISTED = 10_000
"""Largest number of JobSets that `list` returns by default."""
_MAX_COMPARED_NAMES = 100
"""Number of existing names that an unknown name is compared with."""
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_SET_BY_SERVER = {
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid",
}  # fmt: skip
"""Metadata that the API server writes. `create` leaves it out of a JobSet that was read before."""
_KUEUE = "/apis/kueue.x-k8s.io"
_INACTIVE = "spec.active: false"
_WRITE_QUERY = (("fieldManager", core.FIELD_MANAGER), ("fieldValidation", "Strict"))


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a JobSet. `type`: ADDED, MODIFIED or DELETED. `jobset` is the JobSet after the change.

    If a JobSet was deleted while the watch was interrupted, only name, namespace and UID are known.
    """

    type: str
    jobset: JobSet


def url_path(namespace: str | None, name: str = "") -> str:
    """URL path of a JobSet, of all JobSets in a namespace, or without a namespace of all JobSets in the cluster."""
    prefix = (
        core.API_PATH if namespace is None else f"{core.API_PATH}/namespaces/{core.check_name(namespace, 'namespace')}"
    )
    return f"{prefix}/jobsets/{name}" if name else f"{prefix}/jobsets"


def create(home: str, jobset: JobSet, *, namespace: str | None = None, dry_run: bool = False) -> Operation[JobSet]:
    """Create a JobSet, and return it as the API server stored it. `dry_run`: the API server only checks it."""
    original: object = jobset
    if not isinstance(original, JobSet):
        constructor = "from_yaml" if isinstance(original, str | bytes) else "from_dict"
        raise UnreadableError(
            f"create takes a JobSet, and this is {type_of(original)}: JobSet.{constructor}(...) makes one"
        )
    own_namespace = jobset.metadata.namespace
    if own_namespace and namespace and own_namespace != namespace:
        raise UnreadableError(f"{title(jobset)} names another namespace than {namespace!r}: change one of them")
    target_namespace = own_namespace or namespace or home
    name = jobset.metadata.name or f"{jobset.metadata.generate_name or ''}..."
    query = (*_WRITE_QUERY, ("dryRun", "All")) if dry_run else _WRITE_QUERY
    body = jobset.to_dict()
    body.pop("status", None)
    body["metadata"] = {key: value for key, value in body.get("metadata", {}).items() if key not in _SET_BY_SERVER}
    task = f"create JobSet {target_namespace}/{name}"
    try:
        created = yield from ask(
            Call(method="POST", path=url_path(target_namespace), query=query, body=body, task=task)
        )
    except ApiError as error:
        raise strict.name_fields(error, task) from None
    return JobSet.from_dict(created, keep_unknown=True)


def get(home: str, name: str, *, namespace: str | None = None) -> Operation[JobSet]:
    """Read a JobSet. Raises `NotFoundError`, with existing names if the user may list them."""
    namespace = namespace or home
    core.check_name(name)
    try:
        body = yield from ask(Call(method="GET", path=url_path(namespace, name), task=f"get JobSet {namespace}/{name}"))
    except NotFoundError as error:
        candidates = yield from _similar_names(name, namespace)
        text = f"{error}; {candidates}" if candidates else str(error)
        raise NotFoundError(text, status=error.status, reason=error.reason, causes=error.causes) from None
    return JobSet.from_dict(body, keep_unknown=True)


def _similar_names(name: str, namespace: str) -> Operation[str]:
    """A text with names of the first JobSets of the namespace, the most similar name first; empty without names."""
    query = (("limit", str(_MAX_COMPARED_NAMES)),)
    try:
        page = yield from ask(Call(method="GET", path=url_path(namespace), query=query, task="list JobSets"))
    except JobSetError:
        return ""
    items = as_mapping(page).get("items")
    return did_you_mean(name, [str(as_mapping(as_mapping(item).get("metadata")).get("name")) for item in items or ()])


def list_(
    home: str, *, namespace: str | None = None, everywhere: bool = False, labels: str = "", most: int = MAX_LISTED
) -> Operation[list[JobSet]]:
    """All JobSets of the namespace, or of all namespaces. `labels`: a selector, `team=a,tier!=test`.

    Raises `JobSetError` if there are more than `most`.
    """
    selection = _selection(None if everywhere else namespace or home, labels=labels)
    bodies, _ = yield from read_all(selection, f"list JobSets{_labels_text(labels)}", most)
    if bodies is None:
        raise JobSetError(
            f"there are more than {count_noun(most, 'JobSet')}: narrow it by namespace or labels, or raise most="
        )
    return [JobSet.from_dict(body, keep_unknown=True) for body in bodies]


def patch(home: str, name: str, changes: Mapping[str, Any], *, namespace: str | None = None) -> Operation[JobSet]:
    """Change some fields of a JobSet, with the names of the API: `{"metadata": {"labels": {"team": "a"}}}`.

    None removes a field. Raises `InvalidError` for an immutable field.
    """
    namespace = namespace or home
    core.check_name(name)
    original: object = changes
    if not isinstance(original, Mapping):
        example = '{"metadata": {"labels": {"team": "a"}}}'
        raise UnreadableError(f"patch takes a dict such as {example}, and this is {type_of(original)}")
    task = f"patch JobSet {namespace}/{name}"
    call = Call(
        method="PATCH",
        path=url_path(namespace, name),
        query=_WRITE_QUERY,
        body=dict(changes),
        content_type=MERGE_PATCH,
        task=task,
    )
    try:
        body = yield from ask(call)
    except ApiError as error:
        raise strict.name_fields(error, task) from None
    return JobSet.from_dict(body, keep_unknown=True)


def delete(home: str, name: str, *, namespace: str | None = None, propagation: str = "Background") -> Operation[None]:
    """Delete a JobSet with its Jobs. `propagation`: Background, Foreground (Jobs first) or Orphan (Jobs stay)."""
    namespace = namespace or home
    core.check_name(name)
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    task = f"delete JobSet {namespace}/{name}"
    yield from ask(Call(method="DELETE", path=url_path(namespace, name), body=options, task=task))


def watch(
    home: str,
    *,
    name: str = "",
    namespace: str | None = None,
    everywhere: bool = False,
    labels: str = "",
    timeout: float | None = None,
) -> Emitter[Event]:
    """Yield each existing JobSet as ADDED, then each change, until the timeout in seconds, or forever if it is None."""
    selection = _selection(None if everywhere else namespace or home, name, labels)
    changes = Changes(selection, f"watch JobSets{_labels_text(labels)}", Deadline(timeout))
    while (change := (yield from changes.next())) is not None:
        if change.type != "LISTED":
            yield Emit(Event(change.type, JobSet.from_dict(change.body, keep_unknown=True)))


def _labels_text(labels: str) -> str:
    return f" with labels {labels!r}" if labels else ""


def _selection(namespace: str | None, name: str = "", labels: str = "") -> Selection:
    if name:
        core.check_name(name)
    return Selection(url_path(namespace), labels=labels, fields=f"metadata.name={name}" if name else "")


def wait(
    home: str, name: str, state: State = "finished", *, namespace: str | None = None, timeout: float | None = None
) -> Operation[JobSet]:
    """Wait until a JobSet is completed, failed, finished (completed or failed), ready or suspended, and return it.

    Raises `NeverError` as soon as it cannot reach the state, `WaitTimeoutError` after `timeout` seconds.
    """
    if state not in STATES:
        raise UnreadableError(f"{as_json(state)} is not a state; there are: {', '.join(STATES)}")
    deadline = Deadline(timeout)
    try:
        first = yield from get(home, name, namespace=namespace)
    except NotFoundError as error:
        text = f"{error}; it was deleted before, or never created: it will never be {state}"
        raise GoneError(text, status=error.status, reason=error.reason) from None
    return (yield from until(first, state, deadline))


def until(first: JobSet, state: State, deadline: Deadline) -> Operation[JobSet]:
    """Wait until the JobSet of this UID is in the state."""
    wait_decision = Wait(first, state)
    if wait_decision.is_over(first):
        return first
    wait_decision.start_list()
    namespace, name = first.metadata.namespace or "", first.metadata.name or ""
    changes = Changes(_selection(namespace, name), f"watch JobSet {namespace}/{name}", deadline)
    while (change := (yield from changes.next())) is not None:
        if change.type == "LISTED":
            wait_decision.end_list()
        elif change.type == "DELETED":
            wait_decision.delete()
        elif wait_decision.is_over(js := JobSet.from_dict(change.body, keep_unknown=True)):
            return js
    raise WaitTimeoutError(
        f"{title(first)}: not {state} after {deadline.seconds:g} s; explain({name!r}, namespace={namespace!r}) says"
        f" what it waits for, or `jobset explain {name} -n {namespace}`"
    )


def suspend(home: str, name: str, *, namespace: str | None = None) -> Operation[JobSet]:
    """Suspend a JobSet, which ends its pods and keeps its Jobs."""
    js = yield from get(home, name, namespace=namespace)
    if not is_change(js, suspend=True):
        return js
    yield from _refuse_queued(js, f"would resume it at once; Kueue ends its pods where its Workload has {_INACTIVE}")
    return (yield from _suspend_or_resume(js, suspend=True))


def resume(home: str, name: str, *, namespace: str | None = None) -> Operation[JobSet]:
    """Resume a suspended JobSet, whose pods then run."""
    js = yield from get(home, name, namespace=namespace)
    if not is_change(js, suspend=False):
        return js
    yield from _refuse_queued(js, "resumes it when it admits it")
    return (yield from _suspend_or_resume(js, suspend=False))


def restart(home: str, name: str, *, namespace: str | None = None, timeout: float | None = 300) -> Operation[JobSet]:
    """End the pods of a JobSet and start them again: suspend it, wait up to `timeout` seconds, and resume it."""
    namespace = namespace or home
    deadline = Deadline(timeout)
    js = yield from get(home, name, namespace=namespace)
    if not is_change(js, suspend=True):
        raise RefusedError(f"{title(js)} is suspended: resume({name!r}, namespace={namespace!r}) starts its pods")
    kueue_advice = f"Kueue ends its pods where its Workload has {_INACTIVE}, and starts them again with true"
    yield from _refuse_queued(js, f"decides when it runs; {kueue_advice}")
    suspended = yield from _suspend_or_resume(js, suspend=True)
    try:
        yield from until(suspended, "suspended", deadline)
        return (yield from _suspend_or_resume(js, suspend=False))
    except NeverError:
        raise  # it has ended or is gone, so it cannot be resumed
    except GeneratorExit:
        raise
    except BaseException as error:
        error.add_note(f"{title(js)} stays suspended until you call resume({name!r}, namespace={namespace!r})")
        raise


def scale(home: str, name: str, replicas: Mapping[str, int], *, namespace: str | None = None) -> Operation[JobSet]:
    """Change the number of Jobs of ReplicatedJobs: `{"workers": 6}`. Needs the feature gate ElasticJobSet."""
    original: object = replicas
    if not isinstance(original, Mapping):
        raise UnreadableError(f'scale takes a dict such as {{"workers": 6}}, and this is {type_of(original)}')
    js = yield from get(home, name, namespace=namespace)
    changes = scale_patch(js, replicas)
    return (yield from _patch_by_uid(js, changes, JSON_PATCH, "scale")) if changes else js


def logs(  # noqa: PLR0913 (keywords)
    home: str,
    name: str,
    *,
    namespace: str | None = None,
    job: str = "",
    container: str = "",
    attempt: int | None = None,
    tail: int | None = 100,
) -> Emitter[pod_logs.PodLog]:
    """Yield the logs of a JobSet's containers, at most 100. The container that failed first comes first.

    `job`, such as `train-workers-0`, and `container`: only logs of this Job and container. `attempt`: number of
    restarts before the attempt; default: the latest attempt with pods. `tail`: number of last lines of each log; None
    for all lines, of which the API server returns 4 MiB.
    """
    js = yield from get(home, name, namespace=namespace)
    yield from pod_logs.logs(js, job=job, container=container, attempt=attempt, tail=tail)


def explain(home: str, name: str, *, namespace: str | None = None) -> Operation[explaining.Explanation]:
    """Explain why a JobSet waits, or how it ended: `print(client.explain("train"))`.

    It reads the JobSet and its events. The command `jobset explain` also reads Jobs, pods, nodes and queues.
    """
    js = yield from get(home, name, namespace=namespace)
    return (yield from explaining.explain(js))


def _suspend_or_resume(js: JobSet, *, suspend: bool) -> Operation[JobSet]:
    """Write `spec.suspend` of the JobSet of this UID."""
    return _patch_by_uid(js, suspend_patch(js, suspend=suspend), MERGE_PATCH, "suspend" if suspend else "resume")


def _patch_by_uid(js: JobSet, body: Any, content_type: str, verb: str) -> Operation[JobSet]:
    """Patch the JobSet of this UID. `verb`: the action, for messages."""
    namespace, name = js.metadata.namespace or "", js.metadata.name or ""
    patched_body = yield from ask(
        Call(
            method="PATCH",
            path=url_path(namespace, name),
            query=_WRITE_QUERY,
            body=body,
            content_type=content_type,
            task=f"{verb} JobSet {namespace}/{name}",
        )
    )
    return JobSet.from_dict(patched_body, keep_unknown=True)


def _refuse_queued(js: JobSet, clause: str) -> Operation[None]:
    """Raise `RefusedError` for a JobSet in a queue, if the cluster has Kueue."""
    if not queue_of(js):
        return
    try:
        yield from ask(Call(method="GET", path=_KUEUE, task="look for Kueue"))
    except NotFoundError:
        return
    raise queue_refusal(js, clause)
