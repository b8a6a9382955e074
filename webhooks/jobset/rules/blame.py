"""Says whether the name of the JobSet or of a ReplicatedJob makes the name of a Job or pod invalid. Pure."""

import re
from dataclasses import dataclass

from kube.model.field import GENERATE_NAME_PATH, NAME_PATH, Path, quote
from kube.model.validation import MAX_LABEL
from webhooks.jobset.subject import GENERATED_SUFFIX

_JOBSET_NAME = re.compile(r"[a-z][-a-z0-9]*")
_REPLICATED_JOB_NAME = re.compile(r"[-a-z0-9]*")
_PREFIX_BEFORE_DIGIT = "js-"
"""Prefix for the corrected name of a JobSet that begins with a digit."""


@dataclass(frozen=True, slots=True)
class JobSetName:
    """The JobSet's name and its path, or its generateName if it has no name yet."""

    name_path: Path
    name: str


def jobset_name_of(name: object, prefix: object) -> JobSetName:
    """The JobSet's own name, from `metadata.name` and `metadata.generateName`."""
    if isinstance(name, str) and name and not (prefix and name.endswith(GENERATED_SUFFIX)):
        return JobSetName(NAME_PATH, name)
    known_part = name.removesuffix(GENERATED_SUFFIX) if isinstance(name, str) and name else prefix
    return JobSetName(GENERATE_NAME_PATH, known_part if isinstance(known_part, str) else "")


@dataclass(frozen=True, slots=True)
class Blame:
    """Whether the JobSet's name (at `name_path`) or the ReplicatedJob's name is at fault. `change` says the fix."""

    name_path: Path
    blames_jobset: bool
    blames_replicated_job: bool
    change: str


def blame_for_characters(jobset_name: JobSetName, rjob: str) -> Blame:
    """Which of the two names has characters that are not allowed in the name of a Job."""
    name_path, name = jobset_name.name_path, jobset_name.name
    blames_jobset, blames_replicated_job = not _JOBSET_NAME.fullmatch(name), not _REPLICATED_JOB_NAME.fullmatch(rjob)
    changes = []
    if blames_jobset:
        label = _nearest_label(name)
        changes.append(_change(str(name_path), f"{_PREFIX_BEFORE_DIGIT}{label}" if label[:1].isdigit() else label))
    if blames_replicated_job:
        changes.append(_change("the ReplicatedJob's name", _nearest_label(rjob)))
    return Blame(name_path, blames_jobset, blames_replicated_job, f"change {' and '.join(changes)}")


def blame_for_length(jobset_name: JobSetName, rjob: str, excess: int) -> Blame:
    """Which of the two names is longer, and has to lose `excess` bytes."""
    name_path, blames_jobset = jobset_name.name_path, len(jobset_name.name) >= len(rjob)
    owner, name = (str(name_path), jobset_name.name) if blames_jobset else ("the ReplicatedJob's name", rjob)
    shortened_name = name.encode()[:-excess].decode(errors="ignore").rstrip("-.")
    is_valid = bool((_JOBSET_NAME if blames_jobset else _REPLICATED_JOB_NAME).fullmatch(shortened_name))
    example = f", such as to {quote(shortened_name)}" if is_valid and shortened_name else ""
    return Blame(name_path, blames_jobset, not blames_jobset, f"shorten {owner} by {excess}{example}")


def corrected_name(name: str) -> str:
    """The name of a ReplicatedJob, corrected if it has characters that are not allowed."""
    return name if _REPLICATED_JOB_NAME.fullmatch(name) else _nearest_label(name)


def _nearest_label(name: str) -> str:
    """The nearest text with the characters that are allowed in names of Jobs."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_LABEL].rstrip("-")


def _change(owner: str, name: str) -> str:
    return f"{owner} to {quote(name)}" if name else f"{owner}, which may have lower case letters, digits and '-'"
