"""dependsOn: it names earlier ReplicatedJobs, which have to be able to reach the state that it waits for.

See docs/reference/validation.md#dependson.
"""

from collections.abc import Iterator
from functools import partial

from api import stages
from kube.model.field import ErrorType, FieldError, Layer, quote
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.success import completion_check
from webhooks.jobset.rules.targets import name_suggestion
from webhooks.jobset.subject import Entry, Subject

MAX_COMPARED = 256
"""The most ReplicatedJobs of a set whose dependencies are checked."""

_DOCS = Source("docs/reference/validation.md#dependson")
FIRST = _DOCS.error(
    "depends-on-first",
    "DependsOn can't be set for the first ReplicatedJob",
    "remove it{alternative}",
    ErrorType.FORBIDDEN,
)
IN_ORDER = Source("CRD rule on spec", Layer.SCHEMA).error(
    "depends-on-in-order",
    "StartupPolicy and DependsOn APIs are mutually exclusive",
    "remove startupPolicy (deprecated): dependsOn alone can say the order",
)
_CANNOT = "replicatedJob: {name} cannot depend on replicatedJob: {wanted}"
ITSELF = Source("docs/reference/validation.md#dependson, defect 32").error(
    "depends-on-itself",
    _CANNOT,
    "it would never start: remove it",
)
NOT_EARLIER = _DOCS.error("depends-on-later", _CANNOT, "only one that stands earlier can be waited for: {what_to_do}")
UNKNOWN = _DOCS.error("depends-on-unknown", _CANNOT, "there is none of that name; {names_that_exist}")
UNNAMED = _DOCS.error("depends-on-unnamed", _CANNOT, "name what it waits for; {names_that_exist}", ErrorType.REQUIRED)
NEVER_COMPLETES = Source("docs/reference/lifecycle.md#order-of-start").warning(
    "depends-on-never-completes",
    'never reached: "{wanted}" has parallelism 0',
    "raise it, or wait for Ready",
)
NEVER_STARTS = Source("docs/reference/lifecycle.md#success").warning(
    "depends-on-never-starts",
    '"{name}" never starts: by then the set is Completed',
    "see successPolicy",
)


def check_startup_policy(subject: Subject) -> Iterator[FieldError]:
    """Check a rule of the CRD, since the API server would report only this fault."""
    if not stages.is_ordered(subject.js.spec):
        return
    for entry in subject.entries:
        if entry.rjob.depends_on is not None:
            yield IN_ORDER.at(entry.path.at("dependsOn"), entry.rjob.depends_on)


def check_first(subject: Subject) -> Iterator[FieldError]:
    """Check that the first ReplicatedJob has no dependsOn, not even an empty list."""
    for entry in subject.entries[:1]:
        if entry.rjob.depends_on is not None:
            yield FIRST.at(entry.path.at("dependsOn"), alternative=partial(_advice_to_move_down, subject, entry))


def check_targets(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check that the items of dependsOn name earlier ReplicatedJobs of the list."""
    name = entry.rjob.name
    for item_path, item in entry.path.at("dependsOn").each(entry.rjob.depends_on or ()):
        path = item_path.at("name")
        other = subject.entries_by_name.get(item.name)
        if other is None:
            none = "remove it: nothing stands earlier"
            suggestion = partial(
                name_suggestion, subject, item.name, excluded_name=name, intro="the others are", if_none=none
            )
            rule = UNKNOWN if item.name else UNNAMED
            yield rule.at(path, item.name, name=name, wanted=item.name, names_that_exist=suggestion)
        elif item.name == name:
            yield ITSELF.at(path, item.name, name=name, wanted=item.name)
        elif other.index >= entry.index:
            advice = partial(_advice_to_move_up, subject, other, entry)
            yield NOT_EARLIER.at(path, item.name, name=name, wanted=item.name, what_to_do=advice)
        elif item.status == "Complete" and other.rjob.replicas and other.job.never_completes:
            yield NEVER_COMPLETES.at(path, item.name, wanted=item.name)


def _advice_to_move_down(subject: Subject, entry: Entry) -> str:
    """Advice to move the first ReplicatedJob down; empty if it and one of its dependencies wait for each other."""
    awaited = [other for item in entry.rjob.depends_on or () if (other := subject.entries_by_name.get(item.name))]
    if not awaited or any(_waiting_chain(subject, other, entry) for other in awaited):
        return ""
    return f", or move {quote(entry.rjob.name)} below what it waits for"


def _advice_to_move_up(subject: Subject, other: Entry, entry: Entry) -> str:
    if chain := _waiting_chain(subject, other, entry):
        return f"{', '.join(map(quote, chain))} wait for each other: remove one of these waits"
    return f"move {quote(other.rjob.name)} above {quote(entry.rjob.name)}"


def _waiting_chain(subject: Subject, start: Entry, end: Entry) -> list[str]:
    """The names of the ReplicatedJobs by which `start` waits for `end`, both included; empty if it does not wait.

    Reads at most MAX_COMPARED ReplicatedJobs.
    """
    names, previous_names = [start.rjob.name], {start.rjob.name: ""}
    for name in names:
        if name == end.rjob.name:
            chain = [name]
            while previous := previous_names[chain[-1]]:
                chain.append(previous)
            return chain[::-1]
        for item in subject.entries_by_name[name].rjob.depends_on or ():
            if item.name in subject.entries_by_name and item.name not in previous_names and len(names) < MAX_COMPARED:
                previous_names[item.name] = name
                names.append(item.name)
    return []


def check_reachability(subject: Subject) -> Iterator[FieldError]:
    """Findings about ReplicatedJobs that never run because they wait for Jobs that complete the whole set."""
    if len(subject.entries) > MAX_COMPARED:
        return
    completes_set = completion_check(subject)
    completed_before: dict[str, frozenset[str]] = {}
    for entry in subject.entries:
        name, waits = entry.rjob.name, entry.rjob.depends_on or ()
        awaited = {item.name for item in waits if item.status == "Complete"}
        inherited_names = (completed_before.get(item.name, frozenset()) for item in waits)
        completed_before[name] = frozenset(awaited).union(*inherited_names)
        if entry.rjob.replicas and completes_set(completed_before[name]):
            yield NEVER_STARTS.at(entry.path.at("dependsOn"), name=name)
