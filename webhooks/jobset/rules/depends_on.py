"""dependsOn may only look back in the list (3.2 rows 2 and 5e)."""

from collections.abc import Iterator

from api.field import FieldError, forbidden, invalid
from webhooks.jobset.subject import Entry, Subject


def not_on_the_first(subject: Subject) -> Iterator[FieldError]:
    """Row 2: the first ReplicatedJob has nothing to wait for; even an empty list is refused."""
    for entry in subject.entries[:1]:
        if entry.rjob.depends_on is not None:
            yield forbidden(entry.path.at("dependsOn"), "DependsOn can't be set for the first ReplicatedJob")


def known_and_earlier(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Row 5e: only names that stand earlier; its own would never be reached."""
    earlier = {other.rjob.name for other in subject.entries[: entry.index]}
    for k, wanted in enumerate(entry.rjob.depends_on or ()):
        if wanted.name not in earlier:
            detail = f"replicatedJob: {entry.rjob.name} cannot depend on replicatedJob: {wanted.name}"
            yield invalid(entry.path.at("dependsOn", k, "name"), wanted.name, detail)
