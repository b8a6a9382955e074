"""The rule `maxTotals` of policies, about the pods, requests and claims of a set together. Pure."""

from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Annotated

from kube.model.field import ErrorType, FieldError, Path
from kube.model.meta import Base, doc
from policy.cel import NO_TEXTS, Cel, Expression, Root, Writer
from policy.fields import map_by
from policy.judged import JudgedJobSet, Namespace, Template
from policy.limits import CelNumbers, Limit, Number, ResourceLimit, cel_sum, check_limit, effective_limit, single_number
from policy.rule import Compiled, PolicyRule, container_fields, job_fields, pod_fields
from policy.rules.requests import (
    TOTALS,
    UNCOUNTED,
    CelRequests,
    compile_uncountable,
    find_uncountable,
    multiply_by_pods,
    total_request,
)
from policy.rules.resources import CEL_CLAIMS_OF_JOB, CEL_GROUPS, CEL_IS_DEVICE_CLASS, CLAIM_FIELDS, unknown_resource
from policy.rules.sizes import CEL_JOB_COUNT, REPLICAS, cel_parts, cel_replicas, first_parts, largest_replicas
from policy.sentences import invalid

NO_TOTAL = invalid("no-total", ErrorType.REQUIRED, "", "write pods, resources or resourceClaims")


class MaxTotals(Base, frozen=True, kw_only=True):
    """What the pods of one set may take together while all of them run."""

    pods: Annotated[Limit | None, doc("Pods that run at once.")] = None
    resources: Annotated[
        tuple[ResourceLimit, ...], map_by("name", "Requests of all these pods, for each resource.")
    ] = ()
    resource_claims: Annotated[Limit | None, doc("Claims for devices, of all these pods and of their groups.")] = None

    def faults(self, path: Path) -> Iterator[FieldError]:
        """A fault if the rule sets no limit at all."""
        if self.pods is None and self.resource_claims is None and not self.resources:
            yield NO_TOTAL.at(path)


def total_numbers(rule: MaxTotals, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
    """All pods of a set together may take only so much while all of them run: pods, and requests of any resource.

    A Job has as many pods as its parallelism, and no more than its completions. Stages and dependencies do not lower
    the total.

    The requests of a pod are counted as by kube-scheduler. They are the sum over its containers and sidecars, or the
    request of an init container with all earlier sidecars if this is more. Resources of the pod as a whole replace this
    amount. The overhead of the pod is added. A limit without a request counts as the request. A resource without
    requests counts as 0. An amount of a limited resource that cannot be counted is a violation. This is a text that is
    no quantity, a negative quantity, a quantity above 1P, a text of more than 256 characters, or an exponent of more
    than three digits.

    Claims for devices are counted, too. A claim from a template counts once for each pod or group that it is created
    for. Resources named `deviceclass.resource.kubernetes.io/CLASS` count as one claim for each pod that requests them.
    A claim that is used by its name counts once, however many pods use it. The JobSet does not say which devices a
    claim requests.
    """
    if rule.pods is not None:
        find_path = partial(largest_replicas, judged, attrgetter("pod_count"))
        parts = partial(_pod_parts, judged)
        yield Number("pods", judged.pod_count, effective_limit(rule.pods, namespace), find_path, parts)
    if rule.resource_claims is not None:
        claims = sum(map(_claims, judged.templates)) + judged.claims_of_groups + len(judged.named_claims)
        find_path = partial(largest_replicas, judged, _claims)
        parts = partial(_claim_parts, judged)
        yield Number("resource claims", claims, effective_limit(rule.resource_claims, namespace), find_path, parts)
    for limit in rule.resources:
        yield total_request(limit, judged, namespace)


def find_max_totals(rule: MaxTotals, judged: JudgedJobSet, namespace: Namespace) -> Iterator[FieldError]:
    yield from find_uncountable(rule.resources, judged, namespace)
    for number in total_numbers(rule, judged, namespace):
        yield from check_limit(number, TOTALS)


find_max_totals.__doc__ = total_numbers.__doc__


def _claims(template: Template) -> int:
    return template.pod_count * template.claims.created


def _pod_parts(judged: JudgedJobSet) -> list[str]:
    return first_parts(
        f"{template.rjob.name} has {template.job_count} x {template.pods_per_job} = {template.pod_count}"
        for template in judged.templates
    )


def _claim_parts(judged: JudgedJobSet) -> list[str]:
    parts = [
        f"{template.rjob.name} has {template.pod_count} x {template.claims.created} = {_claims(template)}"
        for template in judged.templates
        if template.claims.created
    ]
    parts += [f"groups have {judged.claims_of_groups}"] if judged.claims_of_groups else []
    return first_parts(iter([*parts, f"{len(judged.named_claims)} by name"] if judged.named_claims else parts))


_TOTAL_FIELDS = (
    REPLICAS,
    *job_fields("parallelism", "completions"),
    *container_fields("resources.requests{}", "resources.limits{}"),
    *pod_fields("initContainers[].restartPolicy", "resources.requests{}", "resources.limits{}", "overhead{}"),
    *CLAIM_FIELDS,
)
# In the CEL, `i` is the index of a ReplicatedJob `j`, `p` its pod spec, and `e` an entry of `spec.scheduling`.
_PARALLELISM = "int(j.?template.?spec.?parallelism.orValue(1))"
_COMPLETIONS = f"int(j.?template.?spec.?completions.orValue({_PARALLELISM}))"
_PODS_OF_JOB = f"[0, [{_PARALLELISM}, {_COMPLETIONS}].min()].max()"
_ALL_CONTAINERS = "(p.?containers.orValue([]) + p.?initContainers.orValue([]))"


def _cel_pod_counts(root: Root) -> Cel:
    """A list with an item for each ReplicatedJob: the number of its pods."""
    return Cel(f"{root.variable('jobs')}.map(j, {CEL_JOB_COUNT} * {_PODS_OF_JOB})")


def compile_max_totals(rule: MaxTotals, writer: Writer) -> Compiled:
    variables: list[tuple[str, Expression]] = [("podCounts", _cel_pod_counts)]
    numbers: list[CelNumbers] = []
    if rule.pods is not None:
        numbers.append(_pod_number(rule.pods))
    if rule.resource_claims is not None:
        variables += [("claims", _cel_claims_of_pods), ("claimCounts", partial(multiply_by_pods, "claims"))]
        variables += [("groupClaims", _claims_of_groups), ("namedClaims", _named_claims)]
        numbers.append(_claim_number(rule.resource_claims))
    for i, limit in enumerate(rule.resources):
        resource = CelRequests(limit, f"requests{i}", f"amounts{i}")
        variables.append((resource.pod_variable, resource.pod_requests))
        variables.append((resource.template_variable, partial(multiply_by_pods, resource.pod_variable)))
        numbers.append(resource.number())
    return Compiled(compile_uncountable(rule.resources, writer), numbers=tuple(numbers), variables=tuple(variables))


def _pod_number(limit: Limit) -> CelNumbers:
    words = f"string({CEL_JOB_COUNT}) + ' x ' + string({_PODS_OF_JOB}) + ' = ' + string(variables.podCounts[i])"
    return CelNumbers(
        limit,
        TOTALS,
        lambda root: single_number(cel_sum(f"{root.variable('podCounts')}"), "pods"),
        cel_replicas(Cel("variables.podCounts")),
        parts=cel_parts(f"string(j.name) + ' has ' + {words}"),
    )


_CREATED_ONLY = "filter(c, c.?resourceClaimName.orValue('') == '')"


def _cel_claims_of_pods(root: Root) -> Cel:
    """A list with an item for each template: the number of claims that are created for one of its pods."""
    names_device_class = (
        f"['requests', 'limits'].exists(f, c.?resources[?f].orValue({{}}).exists(r, {CEL_IS_DEVICE_CLASS}))"
    )
    by_class = f"{_ALL_CONTAINERS}.exists(c, {names_device_class})"
    return Cel(
        f"{root.variable('pods')}.map(p, p.?resourceClaims.orValue([]).{_CREATED_ONLY}.size() + ({by_class} ? 1 : 0))"
    )


def _claims_of_groups(root: Root) -> Cel:
    """A list of numbers of claims that are created for groups of pods: first by scheduling entry, then by template."""
    jobs = f"{root.variable('jobs')}.filter(j, j.name in e.targetReplicatedJobs).map(j, {CEL_JOB_COUNT}).sum()"
    of_job = f"e.?job.?resourceClaims.orValue([]).{_CREATED_ONLY}.size() * {jobs}"
    groups = CEL_GROUPS.format(root.name)
    of_entries = f"{groups}.map(e, e.?resourceClaims.orValue([]).{_CREATED_ONLY}.size() + {of_job})"
    by_template = f"{CEL_CLAIMS_OF_JOB}.{_CREATED_ONLY}.size() * {CEL_JOB_COUNT}"
    return Cel(f"{of_entries} + {root.variable('jobs')}.map(j, {by_template})")


def _named_claims(root: Root) -> Cel:
    """A list of the names of the existing claims that the set uses, without repetitions."""
    groups = CEL_GROUPS.format(root.name)
    lists = [f"{root.variable('pods')}.map(p, p.?resourceClaims.orValue([]))"]
    lists += [f"{root.variable('jobs')}.map(j, {CEL_CLAIMS_OF_JOB})"]
    lists += [f"{groups}.map(e, e.?{field}resourceClaims.orValue([]))" for field in ("", "job.?")]
    names = f"({' + '.join(lists)}).flatten().map(c, string(c.?resourceClaimName.orValue('')))"
    return Cel(f"{names}.filter(n, n != '').distinct()")


def _claim_number(limit: Limit) -> CelNumbers:
    of_pod, of_all_pods = "string(variables.claims[i])", "string(variables.claimCounts[i])"
    words = f"string(variables.podCounts[i]) + ' x ' + {of_pod} + ' = ' + {of_all_pods}"
    of_groups, by_name = "variables.groupClaims.sum()", "variables.namedClaims.size()"
    listed = cel_parts(
        f"variables.claims[i] > 0, string(j.name) + ' has ' + {words}",
        f"({of_groups} > 0 ? ['groups have ' + string({of_groups})] : {NO_TEXTS})",
        f"({by_name} > 0 ? [string({by_name}) + ' by name'] : {NO_TEXTS})",
    )

    def amount(root: Root) -> Cel:
        lists = [f"{root.variable('claimCounts')}", f"{root.variable('groupClaims')}"]
        return single_number(
            cel_sum(f"({' + '.join(lists)} + [{root.variable('namedClaims')}.size()])"), "resource claims"
        )

    return CelNumbers(limit, TOTALS, amount, cel_replicas(Cel("variables.claimCounts")), parts=listed)


def _cautions(rule: MaxTotals, path: Path) -> Iterator[FieldError]:
    for i, limit in enumerate(rule.resources):
        yield from unknown_resource(limit.name, path.at("resources", i, "name"))


MaxTotalsRule = Annotated[
    MaxTotals | None,
    doc("Pods and resources of the whole set."),
    PolicyRule(
        "maxTotals",
        (TOTALS, UNCOUNTED),
        find_max_totals,
        compile_max_totals,
        numbers=total_numbers,
        reads=_TOTAL_FIELDS,
        cautions=_cautions,
        note="exact for totals below 2P of cpu and 2E of everything else. Larger ones exceed every limit",
    ),
]
