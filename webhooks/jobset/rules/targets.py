"""Checks the names in a policy's targetReplicatedJobs; the caller chooses the rule that a wrong one breaks."""

from collections.abc import Iterable, Iterator

from api.field import FieldError, Path, Rule
from api.suggest import did_you_mean
from webhooks.jobset.subject import Subject


def unknown_targets(subject: Subject, rule: Rule, targets: Iterable[str], path: Path) -> Iterator[FieldError]:
    """Each name of the list at `path` that no ReplicatedJob has breaks `rule`."""
    for k, target in enumerate(targets):
        if target not in subject.by_name:
            known = did_you_mean(target, subject.names, what="the ReplicatedJobs are")
            yield rule.at(path.at(k), target, name=target, names_that_exist=known)
