"""Rules of policies about the number of Jobs and ReplicatedJobs. Pure."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated

from kube.model.field import SPEC, Path
from kube.model.meta import doc
from policy.cel import Cel, CelPath, Root, Say, cel_path
from policy.judged import JudgedJobSet, Namespace, Template
from policy.limits import CelNumbers, Limit, Number, effective_limit, limit_sentence, single_number
from policy.rule import Compiled, PolicyRule, by_numbers

REPLICATED_JOBS = limit_sentence("maxReplicatedJobs", "merge some of them, or split the set")
JOBS = limit_sentence("maxJobs", "reduce replicas: {parts}")


def replicated_jobs(rule: Limit, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
    """A set may have only so many ReplicatedJobs."""
    jobs_path = SPEC.at("replicatedJobs")
    yield Number("ReplicatedJobs", len(judged.templates), effective_limit(rule, namespace), lambda: jobs_path)


def jobs(rule: Limit, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
    """A set may have only so many Jobs: the `replicas` of all its ReplicatedJobs together."""
    find_path = partial(largest_replicas, judged, _jobs)
    yield Number("Jobs", judged.jobs, effective_limit(rule, namespace), find_path, partial(_job_parts, judged))


def _jobs(template: Template) -> int:
    return template.jobs


def largest_replicas(judged: JudgedJobSet, count: Callable[[Template], int]) -> Path:
    return max(judged.templates, key=count).path.at("replicas") if judged.templates else SPEC.at("replicatedJobs")


MAX_PARTS = 8
"""Templates that a sentence lists."""


def first_parts(parts: Iterator[str]) -> list[str]:
    texts = list(islice(parts, MAX_PARTS + 1))
    return [*texts[:MAX_PARTS], "and others"] if len(texts) > MAX_PARTS else texts


def _job_parts(judged: JudgedJobSet) -> list[str]:
    return first_parts(f"{template.rjob.name} has {template.jobs}" for template in judged.templates)


REPLICAS = "spec.replicatedJobs[].replicas"
CEL_JOBS = "int(j.?replicas.orValue(1))"


def _cel_jobs(root: Root) -> Cel:
    """Jobs of each ReplicatedJob."""
    return Cel(f"{root.variable('jobs')}.map(j, {CEL_JOBS})")


def cel_parts(template: str, *others: str) -> Cel:
    """Text about each ReplicatedJob `j`, its index `i`, and items of other lists, as many as a message lists."""
    most, every = MAX_PARTS, " + ".join([f"variables.jobs.transformList(i, j, {template})", *others])
    some = f"t.size() > {most} ? t.slice(0, {most}) + ['and others'] : t"
    return Cel(f"[{every}].map(t, {some}).map(t, t.join('; '))[0]")


def cel_largest(numbers: Cel) -> str:
    """The index of the ReplicatedJob with the largest of these numbers."""
    return f"{numbers}.indexOf({numbers}.max())"


def cel_replicas(numbers: Cel) -> CelPath:
    """The path of the largest of these numbers."""
    path = f"'spec.replicatedJobs[' + string({cel_largest(numbers)}) + '].replicas'"
    found = Cel(f"({numbers}.size() == 0 ? 'spec.replicatedJobs' : {path})")
    return found, found


def compile_max_replicated_jobs(rule: Limit, say: Say) -> Compiled:
    del say

    def numbers(root: Root) -> Cel:
        return single_number(f"{root.variable('jobs')}.size()", "ReplicatedJobs")

    return Compiled(numbers=(CelNumbers(rule, REPLICATED_JOBS, numbers, cel_path("spec.replicatedJobs")),))


def compile_max_jobs(rule: Limit, say: Say) -> Compiled:
    del say
    counts = ("jobCounts", _cel_jobs)
    parts = cel_parts(f"string(j.name) + ' has ' + string({CEL_JOBS})")
    number = CelNumbers(
        rule,
        JOBS,
        lambda root: single_number(f"{root.variable('jobCounts')}.sum()", "Jobs"),
        cel_replicas(Cel("variables.jobCounts")),
        parts=parts,
    )
    return Compiled(numbers=(number,), variables=(counts,))


MaxReplicatedJobsRule = Annotated[
    Limit | None,
    doc("ReplicatedJobs of a set."),
    PolicyRule(
        "maxReplicatedJobs",
        (REPLICATED_JOBS,),
        by_numbers(replicated_jobs, REPLICATED_JOBS),
        compile_max_replicated_jobs,
        numbers=replicated_jobs,
        reads=("spec.replicatedJobs[].name",),
    ),
]
MaxJobsRule = Annotated[
    Limit | None,
    doc("Jobs of a set."),
    PolicyRule("maxJobs", (JOBS,), by_numbers(jobs, JOBS), compile_max_jobs, numbers=jobs, reads=(REPLICAS,)),
]
