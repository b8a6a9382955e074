"""Names of ReplicatedJobs in fields of the set: wrong ones, and the likely right ones. Pure."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from kube.model.field import FieldError, Path, Rule, quote
from kube.model.suggest import MAX_CANDIDATES, did_you_mean
from webhooks.jobset.rules.blame import job_part
from webhooks.jobset.subject import Subject


def unknown_targets(subject: Subject, rule: Rule, targets: Sequence[str], path: Path) -> Iterator[FieldError]:
    """A finding of `rule` for each name of the list at `path` that no ReplicatedJob has."""
    for target_path, target in path.each(targets):
        if target not in subject.by_name:
            known = partial(name_suggestion, subject, target)
            yield rule.at(target_path, target, name=target, names_that_exist=known)


def name_suggestion(
    subject: Subject, wanted: str, *, but: str = "", intro: str = "the ReplicatedJobs are", none: str = ""
) -> str:
    """The ReplicatedJob that `wanted` may mean, other than `but`. `none`: the text if there are no others.

    An invalid name of a ReplicatedJob is replaced by its correction.
    """
    alternatives = ((name, job_part(name)) for name in subject.names if name != but)
    if renamed := next((name for name, good in islice(alternatives, MAX_CANDIDATES) if good == wanted and wanted), ""):
        return f"right once {quote(renamed)} is renamed to it"
    return did_you_mean(wanted, (job_part(name) for name in subject.names if name != but), intro=intro) or none
