"""What a JobSet must satisfy, one subject per file (behaviour section 3.2). Pure.

A rule takes a `Subject` (and an `Entry`, when it is about one ReplicatedJob) and yields what is wrong. It assumes
nothing about other rules having passed. How rules differ from the Go JobSet's is in `webhooks/README.md`.
"""

from collections.abc import Callable, Iterator

from api.field import FieldError
from webhooks.jobset.subject import Entry, Subject

Rule = Callable[[Subject], Iterator[FieldError]]
EntryRule = Callable[[Subject, Entry], Iterator[FieldError]]
