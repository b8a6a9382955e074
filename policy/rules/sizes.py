"""Rules of policies about the number of Jobs and ReplicatedJobs. Pure."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Annotated

from kube.model.field import SPEC, Path
from kube.model.meta import doc
from policy.cel import Cel, Root, Writer, text
from policy.judged import JudgedJobSet, Namespace, Template
from policy.limits import CelNumbers, Limit, Number, effective_limit, limit_sentence, single_number
from policy.rule import Compiled, limit_rule

REPLICATED_JOBS = limit_sentence("maxReplicatedJobs", "merge some of them, or split the set")
JOBS = limit_sentence("maxJobs", "reduce replicas: {parts}")


def replicated_job_numbers(rule: Limit, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
    """A set may have only so many ReplicatedJobs."""
    jobs_path = SPEC.at("replicatedJobs")
    yield Number("ReplicatedJobs", len(judged.templates), effective_limit(rule, namespace), lambda: jobs_path)


def job_numbers(rule: Limit, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
    """A set may have only so many Jobs: the `replicas` of all its ReplicatedJobs together."""
    find_path = partial(largest_replicas, judged, attrgetter("job_count"))
    yield Number("Jobs", judged.job_count, effective_limit(rule, namespace), find_path, partial(_job_parts, judged))


def largest_replicas(judged: JudgedJobSet, count: Callable[[Template], int]) -> Path:
    """The path of `replicas` in the template with the largest count, or of the list if there is no template."""
    return max(judged.templates, key=count).path.at("replicas") if judged.templates else SPEC.at("replicatedJobs")


MAX_PARTS = 8
"""At most this many templates are listed in a message."""


def first_parts(parts: Iterator[str]) -> list[str]:
    """The first `MAX_PARTS` parts, and a note if there are more."""
    texts = list(islice(parts, MAX_PARTS + 1))
    return [*texts[:MAX_PARTS], "and others"] if len(texts) > MAX_PARTS else texts


def _job_parts(judged: JudgedJobSet) -> list[str]:
    return first_parts(f"{template.rjob.name} has {template.job_count}" for template in judged.templates)


REPLICAS = "spec.replicatedJobs[].replicas"
CEL_JOB_COUNT = "int(j.?replicas.orValue(1))"
"""In CEL, the number of Jobs of the ReplicatedJob `j`."""


def _cel_job_counts(root: Root) -> Cel:
    """A list with an item for each ReplicatedJob: the number of its Jobs."""
    return Cel(f"{root.variable('jobs')}.map(j, {CEL_JOB_COUNT})")


def cel_parts(template: str, *more_lists: str) -> Cel:
    """An expression for a text that joins the first `MAX_PARTS` parts.

    `template`: CEL of the part about the ReplicatedJob `j` with the index `i`. `more_lists`: CEL of further parts.
    """
    all_parts = " + ".join([f"variables.jobs.transformList(i, j, {template})", *more_lists])
    first = f"t.size() > {MAX_PARTS} ? t.slice(0, {MAX_PARTS}) + ['and others'] : t"
    return Cel(f"[{all_parts}].map(t, {first}).map(t, t.join('; '))[0]")


def cel_largest(numbers: Cel) -> str:
    """CEL: the index of the largest of `numbers`, which has an item for each ReplicatedJob."""
    return f"{numbers}.indexOf({numbers}.max())"


def cel_replicas(numbers: Cel) -> Cel:
    """The path of `replicas` of the ReplicatedJob with the largest of `numbers`, or of the list if that is empty."""
    path = f"'spec.replicatedJobs[' + string({cel_largest(numbers)}) + '].replicas'"
    return Cel(f"({numbers}.size() == 0 ? 'spec.replicatedJobs' : {path})")


def compile_max_replicated_jobs(rule: Limit, _: Writer) -> Compiled:
    def numbers(root: Root) -> Cel:
        return single_number(f"{root.variable('jobs')}.size()", "ReplicatedJobs")

    return Compiled(numbers=(CelNumbers(rule, REPLICATED_JOBS, numbers, text("spec.replicatedJobs")),))


def compile_max_jobs(rule: Limit, _: Writer) -> Compiled:
    parts = cel_parts(f"string(j.name) + ' has ' + string({CEL_JOB_COUNT})")
    number = CelNumbers(
        rule,
        JOBS,
        lambda root: single_number(f"{root.variable('jobCounts')}.sum()", "Jobs"),
        cel_replicas(Cel("variables.jobCounts")),
        parts=parts,
    )
    return Compiled(numbers=(number,), variables=(("jobCounts", _cel_job_counts),))


MaxReplicatedJobsRule = Annotated[
    Limit | None,
    doc("ReplicatedJobs of a set."),
    limit_rule(
        "maxReplicatedJobs",
        REPLICATED_JOBS,
        replicated_job_numbers,
        compile_max_replicated_jobs,
        reads=("spec.replicatedJobs[].name",),
    ),
]
MaxJobsRule = Annotated[
    Limit | None,
    doc("Jobs of a set."),
    limit_rule("maxJobs", JOBS, job_numbers, compile_max_jobs, reads=(REPLICAS,)),
]
