"""A JobSet as the checks read it: typed, with names resolved, and the raw JSON beside it for messages. Pure.

The API server's schema has normally looked at the object before; where it has not, what cannot be read becomes a field
error, never an exception.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from api.features import FeatureGates
from api.field import ErrorType, FieldError, Path
from api.jobset import FailurePolicy, JobSet, ReplicatedJob
from api.jsontree import dig, without_nulls
from api.meta import JSON, Base

MAX_GENERATED_BASE = 58
GENERATED_SUFFIX = "xxxxx"
"""Stands for the five random characters of a name to come, so that the same manifest always gets the same answer."""

T = TypeVar("T")


class Named(Base, frozen=True, kw_only=True):
    """A volume, or a mount of one."""

    name: str = ""


class Container(Base, frozen=True, kw_only=True):
    """A container as far as volumes go."""

    volume_mounts: tuple[Named, ...] = ()


class PodSpec(Base, frozen=True, kw_only=True):
    """A pod as far as volumes go."""

    volumes: tuple[Named, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class PodTemplate(Base, frozen=True, kw_only=True):
    """`template.spec.template`."""

    spec: PodSpec = PodSpec()


class JobSpec(Base, frozen=True, kw_only=True):
    """The fields of batch/v1 JobSpec that admission reads."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    pod_replacement_policy: str | None = None
    template: PodTemplate = PodTemplate()


class JobTemplate(Base, frozen=True, kw_only=True):
    """`replicatedJobs[].template`."""

    spec: JobSpec = JobSpec()


class ClaimTemplate(Base, frozen=True, kw_only=True):
    """`volumeClaimPolicies[].templates[]`."""

    metadata: Named = Named()


@dataclass(frozen=True, slots=True)
class Entry:
    """One ReplicatedJob: its place, its own fields, and the Job it makes."""

    index: int
    path: Path
    rjob: ReplicatedJob
    job: JobSpec

    @property
    def job_path(self) -> Path:
        return self.path.at("template", "spec")


@dataclass(frozen=True, slots=True)
class Claim:
    """One volume claim template. `path` is spelled as the Go JobSet spells it: `template`, not `templates`."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Subject:
    """Everything a check may look at. `js.metadata.name` is the name that the object has or will have."""

    js: JobSet
    raw_spec: JSON
    entries: tuple[Entry, ...]
    claims: tuple[Claim, ...]
    gates: FeatureGates

    @property
    def name(self) -> str:
        return self.js.metadata.name

    @property
    def failure_policy(self) -> FailurePolicy:
        """The policy in force; one without rules when there is none."""
        return self.js.spec.failure_policy or FailurePolicy()

    def entry(self, name: str) -> Entry | None:
        """The ReplicatedJob of that name."""
        return next((entry for entry in self.entries if entry.rjob.name == name), None)


class Unreadable(Exception):  # noqa: N818 -- the object is, nothing failed
    """The object has not the shape of a JobSet; `error` says where."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def subject(obj: JSON, gates: FeatureGates) -> Subject:
    """Read a JobSet; raises `Unreadable`."""
    plain = without_nulls({"metadata": dig(obj, "metadata") or {}, "spec": dig(obj, "spec") or {}})
    js = _read(plain, JobSet, Path())
    meta = js.metadata
    if not meta.name and meta.generate_name:
        base = meta.generate_name.encode()[:MAX_GENERATED_BASE].decode(errors="ignore")
        js = msgspec.structs.replace(js, metadata=msgspec.structs.replace(meta, name=base + GENERATED_SUFFIX))
    return Subject(js, dig(obj, "spec") or {}, tuple(_entries(js)), tuple(_claims(js)), gates)


def _entries(js: JobSet) -> Iterator[Entry]:
    for i, rjob in enumerate(js.spec.replicated_jobs):
        path = Path(("spec", "replicatedJobs", i))
        yield Entry(i, path, rjob, _read(rjob.template, JobTemplate, path.at("template")).spec)


def _claims(js: JobSet) -> Iterator[Claim]:
    for p, policy in enumerate(js.spec.volume_claim_policies):
        base = Path(("spec", "volumeClaimPolicies", p))
        for t, template in enumerate(policy.templates):
            claim = _read(template, ClaimTemplate, base.at("templates", t))
            yield Claim(base.at("template", t), claim.metadata.name)


def _read(value: Any, kind: type[T], base: Path) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `")
        path = base.at(*_parts(where))
        offending = dig(value, *path.parts[len(base.parts) :])
        raise Unreadable(FieldError(path, ErrorType.TYPE_INVALID, offending, what)) from None


def _parts(where: str) -> list[str | int]:
    """Parts of a place as msgspec writes it: `$.spec.rules[0].name`."""
    return [int(index) if index else key for key, index in re.findall(r"\.([A-Za-z][^.\[`]*)|\[(\d+)\]", where)]
