"""What a JobSet must satisfy, one subject per file. Pure.

See docs/reference/validation.md#new-jobsets.

A check takes a `Subject` (and an `Entry`, when it is about one ReplicatedJob) and yields what breaks a `Rule`. It
assumes nothing about other checks having passed. docs/reference/admission-differences.md says how the rules differ from
the Go JobSet's.
"""

from collections.abc import Callable, Iterator

from kube.model.field import FieldError
from webhooks.jobset.subject import Entry, Subject

SubjectCheck = Callable[[Subject], Iterator[FieldError]]
EntryCheck = Callable[[Subject, Entry], Iterator[FieldError]]
