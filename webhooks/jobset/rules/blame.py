"""Says whether the name of the JobSet or of a ReplicatedJob makes the name of a Job or pod invalid. Pure."""

import re
from dataclasses import dataclass

from kube.model.field import Path, quote
from kube.model.validation import MAX_LABEL
from webhooks.jobset.subject import GENERATED_SUFFIX

_SET_PART = re.compile(r"[a-z][-a-z0-9]*")
_JOB_PART = re.compile(r"[-a-z0-9]*")
_NAME, _GENERATE_NAME = Path(("metadata", "name")), Path(("metadata", "generateName"))
_BEFORE_DIGITS = "js-"
"""Prefix for the corrected name of a JobSet that begins with a digit."""


@dataclass(frozen=True, slots=True)
class Own:
    """The JobSet's name and its path, or its generateName if it has no name yet."""

    name_path: Path
    name: str


def own_name(name: object, prefix: object) -> Own:
    """The JobSet's own name, from `metadata.name` and `metadata.generateName`."""
    if isinstance(name, str) and name and not (prefix and name.endswith(GENERATED_SUFFIX)):
        return Own(_NAME, name)
    begin = name.removesuffix(GENERATED_SUFFIX) if isinstance(name, str) and name else prefix
    return Own(_GENERATE_NAME, begin if isinstance(begin, str) else "")


@dataclass(frozen=True, slots=True)
class Blame:
    """Whether to change the JobSet's name (at `name_path`) or the ReplicatedJob's name, and how (`change`)."""

    name_path: Path
    of_set: bool
    of_job: bool
    change: str


def blame_for_characters(own: Own, job: str) -> Blame:
    """Which of the two names has characters that are not allowed in the name of a Job."""
    name_path, name = own.name_path, own.name
    of_set, of_job = not _SET_PART.fullmatch(name), not _JOB_PART.fullmatch(job)
    changes = []
    if of_set:
        label = _nearest_label(name)
        changes.append(_change(str(name_path), f"{_BEFORE_DIGITS}{label}" if label[:1].isdigit() else label))
    if of_job:
        changes.append(_change("the ReplicatedJob's name", _nearest_label(job)))
    return Blame(name_path, of_set, of_job, f"change {' and '.join(changes)}")


def blame_for_length(own: Own, job: str, excess: int) -> Blame:
    """Which of the two names is longer, and has to lose `excess` bytes."""
    name_path, of_set = own.name_path, len(own.name) >= len(job)
    owner, name = (str(name_path), own.name) if of_set else ("the ReplicatedJob's name", job)
    shorter = name.encode()[:-excess].decode(errors="ignore").rstrip("-.")
    is_valid = bool((_SET_PART if of_set else _JOB_PART).fullmatch(shorter))
    example = f", such as to {quote(shorter)}" if is_valid and shorter else ""
    return Blame(name_path, of_set, not of_set, f"shorten {owner} by {excess}{example}")


def job_part(name: str) -> str:
    """The name of a ReplicatedJob, corrected if it has characters that are not allowed."""
    return name if _JOB_PART.fullmatch(name) else _nearest_label(name)


def _nearest_label(name: str) -> str:
    """The nearest text with the characters that are allowed in names of Jobs."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_LABEL].rstrip("-")


def _change(owner: str, name: str) -> str:
    return f"{owner} to {quote(name)}" if name else f"{owner}, which may have lower case letters, digits and '-'"
