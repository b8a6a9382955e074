"""Rules of policies about the size of the whole set. Pure."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from kube.model.field import SPEC, ErrorType, FieldError, Path
from kube.model.requests import MOST
from policy.judged import NO_BOUND, Judged, Namespace, Number, Template, as_text, bound
from policy.rule_types import Limit, MaxTotals
from policy.rules.resources import CLAIMS
from policy.rules.words import PolicyRule, by_numbers, declared, held, limited, of_containers, of_jobs, of_pods

TOTALS = limited("maxTotals", "reduce replicas, parallelism or requests: {parts}")
UNCOUNTED = declared(
    "maxTotals",
    ErrorType.INVALID,
    "an amount that cannot be counted",
    f'write a number from 0 to {MOST}, with a unit if it needs one, such as 8, "500m" or "64Gi"',
    "uncounted",
)
REPLICATED_JOBS = limited("maxReplicatedJobs", "merge some of them, or split the set")
JOBS = limited("maxJobs", "reduce replicas: {parts}")


def max_totals(rule: MaxTotals, judged: Judged, namespace: Namespace) -> Iterator[Number]:
    """All pods of a set together may take only so much while all of them run: pods, and requests of any resource.

    A Job has as many pods as its parallelism, and no more than its completions. Stages and dependencies do not lower
    the total. A pod's requests are those that kube-scheduler counts: of its containers and sidecars together, or of an
    init container with the sidecars before it if that is more; resources of the pod as a whole in their place; and the
    overhead of the pod. A limit without a request counts as the request. What a set requests nothing of is 0. An amount
    of a limited resource that cannot be counted is a violation: no quantity, a negative one, one above 1P, one of more
    than 256 characters, or one with an exponent of more than three digits.

    Claims for devices are counted, too: one for each pod and each group for which it is made from a template, one for
    each pod that requests resources named `deviceclass.resource.kubernetes.io/CLASS`, and one for each that is named,
    however many use it. Which devices a claim asks for is not in the JobSet.
    """
    if rule.pods is not None:
        where = partial(_largest_replicas, judged, _pods)
        yield Number("pods", judged.pods, bound(rule.pods, namespace), where, partial(_pod_parts, judged))
    if rule.resource_claims is not None:
        claims = sum(map(_claims, judged.templates)) + judged.claims_of_groups + len(judged.named_claims)
        where = partial(_largest_replicas, judged, _claims)
        parts = partial(_claim_parts, judged)
        yield Number("resource claims", claims, bound(rule.resource_claims, namespace), where, parts)
    for limit in rule.resources:
        amount = judged.requests.get(limit.name, 0)
        where = partial(_request, judged, limit.name)
        most = bound(limit, namespace)
        parts = partial(_resource_parts, judged, limit.name, most.text)
        yield Number(limit.name, amount, most, where, parts)


def _find_totals(rule: MaxTotals, judged: Judged, namespace: Namespace) -> Iterator[FieldError]:
    limited_names = {limit.name for limit in rule.resources if bound(limit, namespace) != NO_BOUND}
    for template in judged.templates:
        for path, name, value in template.uncountable_amounts:
            if name in limited_names:
                yield UNCOUNTED.at(path, str(value))
    for number in max_totals(rule, judged, namespace):
        yield from held(number, TOTALS)


_find_totals.__doc__ = max_totals.__doc__


def max_replicated_jobs(rule: Limit, judged: Judged, namespace: Namespace) -> Iterator[Number]:
    """A set may have only so many ReplicatedJobs."""
    place = SPEC.at("replicatedJobs")
    yield Number("ReplicatedJobs", len(judged.templates), bound(rule, namespace), lambda: place)


def max_jobs(rule: Limit, judged: Judged, namespace: Namespace) -> Iterator[Number]:
    """A set may have only so many Jobs: the `replicas` of all its ReplicatedJobs together."""
    where = partial(_largest_replicas, judged, _jobs)
    yield Number("Jobs", judged.jobs, bound(rule, namespace), where, partial(_job_parts, judged))


def _jobs(template: Template) -> int:
    return template.jobs


def _pods(template: Template) -> int:
    return template.pods


def _claims(template: Template) -> int:
    return template.pods * template.claims[0]


def _largest_replicas(judged: Judged, count: Callable[[Template], int]) -> Path:
    return max(judged.templates, key=count).path.at("replicas") if judged.templates else SPEC.at("replicatedJobs")


def _request(judged: Judged, resource: str) -> Path:
    """Where most of the resource is requested."""
    if not judged.templates:
        return SPEC.at("replicatedJobs")
    largest = max(judged.templates, key=lambda template: template.pods * template.requests.get(resource, 0))
    return largest.request_place(resource)


MOST_PARTS = 8
"""Templates that a sentence lists."""


def _listed(parts: Iterator[str]) -> list[str]:
    texts = list(islice(parts, MOST_PARTS + 1))
    return [*texts[:MOST_PARTS], "and others"] if len(texts) > MOST_PARTS else texts


def _job_parts(judged: Judged) -> list[str]:
    return _listed(f"{template.rjob.name} has {template.jobs}" for template in judged.templates)


def _pod_parts(judged: Judged) -> list[str]:
    return _listed(
        f"{template.rjob.name} has {template.jobs} x {template.pods_of_job} = {template.pods}"
        for template in judged.templates
    )


def _claim_parts(judged: Judged) -> list[str]:
    parts = [
        f"{template.rjob.name} has {template.pods} x {template.claims[0]} = {_claims(template)}"
        for template in judged.templates
        if template.claims[0]
    ]
    parts += [f"groups have {judged.claims_of_groups}"] if judged.claims_of_groups else []
    return _listed(iter([*parts, f"{len(judged.named_claims)} by name"] if judged.named_claims else parts))


def _resource_parts(judged: Judged, name: str, limit: str) -> list[str]:
    return _listed(
        f"{template.rjob.name} has {template.pods} x {as_text(template.requests[name], limit)}"
        f" = {as_text(template.pods * template.requests[name], limit)}"
        for template in judged.templates
        if name in template.requests
    )


_REPLICAS = "spec.replicatedJobs[].replicas"
_AMOUNTS = (
    _REPLICAS,
    *of_jobs("parallelism", "completions"),
    *of_containers("resources.requests{}", "resources.limits{}"),
    *of_pods("initContainers[].restartPolicy", "resources.requests{}", "resources.limits{}", "overhead{}"),
    *CLAIMS,
)

RULES = (
    PolicyRule("maxTotals", (TOTALS, UNCOUNTED), _find_totals, max_totals, reads=_AMOUNTS),
    PolicyRule(
        "maxReplicatedJobs",
        (REPLICATED_JOBS,),
        by_numbers(max_replicated_jobs, REPLICATED_JOBS),
        max_replicated_jobs,
        reads=("spec.replicatedJobs[].name",),
    ),
    PolicyRule("maxJobs", (JOBS,), by_numbers(max_jobs, JOBS), max_jobs, reads=(_REPLICAS,)),
)
