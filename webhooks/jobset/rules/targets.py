"""Names of ReplicatedJobs in fields of the set: findings about unknown names, and suggestions. Pure."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from kube.model.field import FieldError, Path, Rule, quote
from kube.model.suggest import MAX_CANDIDATES, did_you_mean
from webhooks.jobset.rules.blame import corrected_name
from webhooks.jobset.subject import Subject


def unknown_targets(subject: Subject, rule: Rule, targets: Sequence[str], path: Path) -> Iterator[FieldError]:
    """A finding of `rule` for each name of the list at `path` that no ReplicatedJob has."""
    for target_path, target in path.each(targets):
        if target not in subject.entries_by_name:
            suggestion = partial(name_suggestion, subject, target)
            yield rule.at(target_path, target, name=target, names_that_exist=suggestion)


def name_suggestion(
    subject: Subject, unknown: str, *, excluded_name: str = "", intro: str = "the ReplicatedJobs are", if_none: str = ""
) -> str:
    """The end of a message: the ReplicatedJob that the name `unknown` may mean, other than `excluded_name`.

    `if_none` if there is no other ReplicatedJob. Suggested names are valid: an invalid name of a ReplicatedJob is
    corrected.
    """
    names = list(
        islice(
            ((name, corrected_name(name)) for name in subject.replicated_job_names if name != excluded_name),
            MAX_CANDIDATES,
        )
    )
    misnamed = (name for name, valid_name in names if unknown and valid_name == unknown)
    if name := next(misnamed, ""):
        return f"right once {quote(name)} is renamed to it"
    return did_you_mean(unknown, (valid_name for _, valid_name in names), intro=intro) or if_none
