"""Rules about the size of the whole set, in CEL. Pure.

Totals are computed as `kube.model.requests` does, in whole numbers: of cpu in thousandths, of everything else in
whole units.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kube.model.requests import MOST as MOST_OF_POD
from kube.model.requests import is_of_pods
from policy.compiled.cel import (
    NO_TEXTS,
    Cel,
    Index,
    Place,
    Root,
    Say,
    Shared,
    added,
    of_pod,
    place,
    quoted,
    text,
    texts,
)
from policy.compiled.metadata import below
from policy.compiled.resources import GROUPS, OF_CLASS, OF_JOB
from policy.compiled.words import MOST, Compiled, Numbers, is_amount, limit_of, one, total
from policy.judged import AGENT
from policy.rule_types import Limit, MaxTotals, ResourceLimit
from policy.rules import totals as rules

_PARALLELISM = "int(j.?template.?spec.?parallelism.orValue(1))"
_COMPLETIONS = f"int(j.?template.?spec.?completions.orValue({_PARALLELISM}))"
_PODS_OF_JOB = f"[0, [{_PARALLELISM}, {_COMPLETIONS}].min()].max()"
_R = below("", "r")
_OF_CONTAINERS = "(p.?containers.orValue([]) + p.?initContainers.orValue([]))"
_JOBS = "int(j.?replicas.orValue(1))"


def _jobs(root: Root) -> Cel:
    """Jobs of each ReplicatedJob."""
    return Cel(f"{root.variable('jobs')}.map(j, {_JOBS})")


def _pods(root: Root) -> Cel:
    """Pods of each ReplicatedJob."""
    return Cel(f"{root.variable('jobs')}.map(j, {_JOBS} * {_PODS_OF_JOB})")


def _listed(template: str, *others: str) -> Cel:
    """Words about each ReplicatedJob `j`, its number `i`, and lists of others, as far as a sentence lists them."""
    most, every = rules.MOST_PARTS, " + ".join([f"variables.jobs.transformList(i, j, {template})", *others])
    some = f"t.size() > {most} ? t.slice(0, {most}) + ['and others'] : t"
    return Cel(f"[{every}].map(t, {some}).map(t, t.join('; '))[0]")


def _largest(numbers: Cel) -> str:
    """The number of the ReplicatedJob with the largest of these."""
    return f"{numbers}.indexOf({numbers}.max())"


def _replicas(numbers: Cel) -> Place:
    """The place of the largest of these numbers."""
    path = f"'spec.replicatedJobs[' + string({_largest(numbers)}) + '].replicas'"
    found = Cel(f"({numbers}.size() == 0 ? 'spec.replicatedJobs' : {path})")
    return found, found


def max_replicated_jobs(rule: Limit, say: Say) -> Compiled:
    del say

    def listed(root: Root) -> Cel:
        return one(f"{root.variable('jobs')}.size()", "ReplicatedJobs")

    return Compiled(numbers=(Numbers(rule, rules.REPLICATED_JOBS, listed, place("spec.replicatedJobs")),))


def max_jobs(rule: Limit, say: Say) -> Compiled:
    del say
    counts = ("jobCounts", _jobs)
    parts = _listed(f"string(j.name) + ' has ' + string({_JOBS})")
    number = Numbers(
        rule,
        rules.JOBS,
        lambda root: one(f"{root.variable('jobCounts')}.sum()", "Jobs"),
        _replicas(Cel("variables.jobCounts")),
        parts=parts,
    )
    return Compiled(numbers=(number,), variables=(counts,))


def max_totals(rule: MaxTotals, say: Say) -> Compiled:
    variables: list[tuple[str, Shared]] = [("podCounts", _pods)]
    numbers: list[Numbers] = []
    if rule.pods is not None:
        numbers.append(_pod_number(rule.pods))
    if rule.resource_claims is not None:
        variables += [("claims", _claims), ("claimCounts", _claim_counts)]
        variables += [("groupClaims", _claims_of_groups), ("namedClaims", _named_claims)]
        numbers.append(_claim_number(rule.resource_claims))
    for i, limit in enumerate(rule.resources):
        resource = _Resource(limit, f"requests{i}", f"amounts{i}")
        variables += [(resource.requests, resource.of_pods), (resource.amounts, resource.of_templates)]
        numbers.append(resource.number())
    return Compiled(_uncounted(rule, say), numbers=tuple(numbers), variables=tuple(variables))


def _pod_number(limit: Limit) -> Numbers:
    words = f"string({_JOBS}) + ' x ' + string({_PODS_OF_JOB}) + ' = ' + string(variables.podCounts[i])"
    return Numbers(
        limit,
        rules.TOTALS,
        lambda root: one(total(f"{root.variable('podCounts')}"), "pods"),
        _replicas(Cel("variables.podCounts")),
        parts=_listed(f"string(j.name) + ' has ' + {words}"),
    )


_IS_MADE = "filter(c, c.?resourceClaimName.orValue('') == '')"


def _claims(root: Root) -> Cel:
    """Claims that are made for a pod of each template."""
    in_one = f"['requests', 'limits'].exists(f, c.?resources[?f].orValue({{}}).exists(r, {OF_CLASS}))"
    by_class = f"{_OF_CONTAINERS}.exists(c, {in_one})"
    return Cel(
        f"{root.variable('pods')}.map(p, p.?resourceClaims.orValue([]).{_IS_MADE}.size() + ({by_class} ? 1 : 0))"
    )


def _claim_counts(root: Root) -> Cel:
    """Claims that are made for all pods of each template."""
    return _products(root, "claims")


def _claims_of_groups(root: Root) -> Cel:
    """Claims that are made for groups of pods, for each entry of the groups and for each template."""
    jobs = f"{root.variable('jobs')}.filter(j, j.name in e.targetReplicatedJobs).map(j, {_JOBS}).sum()"
    of_job = f"e.?job.?resourceClaims.orValue([]).{_IS_MADE}.size() * {jobs}"
    groups = GROUPS.format(root.name)
    of_entries = f"{groups}.map(e, e.?resourceClaims.orValue([]).{_IS_MADE}.size() + {of_job})"
    return Cel(f"{of_entries} + {root.variable('jobs')}.map(j, {OF_JOB}.{_IS_MADE}.size() * {_JOBS})")


def _named_claims(root: Root) -> Cel:
    """Names of claims that are there already, each once."""
    groups = GROUPS.format(root.name)
    lists = [f"{root.variable('pods')}.map(p, p.?resourceClaims.orValue([]))"]
    lists += [f"{root.variable('jobs')}.map(j, {OF_JOB})"]
    lists += [f"{groups}.map(e, e.?{field}resourceClaims.orValue([]))" for field in ("", "job.?")]
    names = f"({' + '.join(lists)}).flatten().map(c, string(c.?resourceClaimName.orValue('')))"
    return Cel(f"{names}.filter(n, n != '').distinct()")


def _claim_number(limit: Limit) -> Numbers:
    each, every = "string(variables.claims[i])", "string(variables.claimCounts[i])"
    words = f"string(variables.podCounts[i]) + ' x ' + {each} + ' = ' + {every}"
    of_groups, by_name = "variables.groupClaims.sum()", "variables.namedClaims.size()"
    listed = _listed(
        f"variables.claims[i] > 0, string(j.name) + ' has ' + {words}",
        f"({of_groups} > 0 ? ['groups have ' + string({of_groups})] : {NO_TEXTS})",
        f"({by_name} > 0 ? [string({by_name}) + ' by name'] : {NO_TEXTS})",
    )

    def amount(root: Root) -> Cel:
        lists = [f"{root.variable('claimCounts')}", f"{root.variable('groupClaims')}"]
        return one(total(f"({' + '.join(lists)} + [{root.variable('namedClaims')}.size()])"), "resource claims")

    return Numbers(limit, rules.TOTALS, amount, _replicas(Cel("variables.claimCounts")), parts=listed)


def _products(root: Root, of_pod: str) -> Cel:
    """What all pods of each template have, where a variable says what one has."""
    one_pod = f"{root.variable(of_pod)}[i]"
    product = f"double(n) * double({one_pod}) < double({MOST}) ? n * {one_pod} : {MOST}"
    return Cel(f"{root.variable('podCounts')}.transformList(i, n, {product})")


def _is_counted(value: str) -> str:
    """Whether a text is an amount that a pod may state."""
    return f"{is_amount(value)} && !quantity({value}).isGreaterThan(quantity('{MOST_OF_POD}'))"


def _stated(holder: str, key: str) -> str:
    """What a container, or a pod as a whole, requests of a resource: an optional quantity."""
    return f"{holder}.?resources.?requests[?{key}].or({holder}.?resources.?limits[?{key}])"


def _uncounted(rule: MaxTotals, say: Say) -> Shared:
    """Findings about amounts that cannot be counted, of each resource `r` that has a limit."""
    limits = rule.resources
    kind = "({}.?resources.?requests[?r].hasValue() ? 'requests' : 'limits')"
    of_container = of_pod("x.j", ".", Cel("string(x.f)"), Index("x.k"), ".resources.", Cel(kind.format("x.c")), _R)
    of_whole, of_overhead = of_pod("i", ".resources.", Cel(kind.format("p")), _R), of_pod("i", ".overhead", _R)

    def each(names: Cel, holders: str, stated: str, at: Place) -> Cel:
        found = say.at(rules.UNCOUNTED, *at, shown=quoted(Cel("t")))
        wrong = f"[string({stated}.orValue(dyn(0)))].filter(t, !({_is_counted('t')})).map(t, {found})"
        return Cel(f"{names}.map(r, {holders}, {wrong}).flatten()).flatten()")

    def found(root: Root) -> Cel:
        pods = f"{root.variable('changedPods')}.transformList(i, p"
        names = _limited(limits)
        lists = [
            each(names, f"{root.variable('containers')}.map(x", _stated("x.c", "r"), of_container),
            each(names, f"{pods}, has(p.overhead)", "p.?overhead[?r]", of_overhead),
        ]
        if of_pods := [limit for limit in limits if is_of_pods(limit.name)]:
            lists.append(each(_limited(of_pods), f"{pods}, has(p.resources)", _stated("p", "r"), of_whole))
        return added(*lists)

    return found if limits else Compiled().found


def _limited(limits: Sequence[ResourceLimit]) -> Cel:
    """Names of those resources that have a limit in this namespace."""
    always = texts(limit.name for limit in limits if limit.max is not None)
    here = (
        Cel(f"({limit_of(limit)}.size() > 0 ? [{text(limit.name)}] : {NO_TEXTS})")
        for limit in limits
        if limit.max is None
    )
    return Cel(f"({added(always if always.text != '[]' else NO_TEXTS, *here)})")


@dataclass(frozen=True, slots=True)
class _Resource:
    """A resource of a total. `requests`, `amounts`: variables with what one pod, and all pods, of a template take."""

    limit: ResourceLimit
    requests: str
    amounts: str

    @property
    def key(self) -> Cel:
        return text(self.limit.name)

    @property
    def in_thousandths(self) -> bool:
        return self.limit.name == "cpu"

    def _stated(self, holder: str) -> str:
        return _stated(holder, str(self.key))

    def _counted(self, holders: str, stated: str) -> str:
        """What each of these requests, rounded up to a whole number; -1 where there is nothing that can be counted."""
        scale, unit = (" * 1000.0", " + 'm'") if self.in_thousandths else ("", "")
        near = f"int(q.asApproximateFloat(){scale} + 0.5)"
        whole = f"[{near}].map(w, quantity(string(w){unit}).isLessThan(q) ? w + 1 : w)"
        amount = f"[quantity(t)].map(q, {whole}[0])[0]"
        return f"{holders}.map(c, string({stated}.orValue(dyn('')))).map(t, {_is_counted('t')} ? {amount} : -1)"

    def _sum(self, holders: str, stated: str) -> str:
        """What all these request."""
        return total(f"{self._counted(holders, stated)}.filter(n, n > 0)")

    def _of_containers(self, init: str) -> str:
        """Containers and sidecars together, or an init container beside earlier sidecars if that is more."""
        sidecar = "c.?restartPolicy.orValue('') == 'Always'"
        stated = self._stated("c")
        running = (
            f"{self._sum('p.?containers.orValue([])', stated)} + {self._sum(f'{init}.filter(c, {sidecar})', stated)}"
        )
        earlier = self._sum(f"{init}.slice(0, k).filter(c, {sidecar})", stated)
        starting = f"{init}.transformList(k, c, !({sidecar}), {self._sum('[c]', stated)} + {earlier})"
        return f"([{running}] + {starting}).max()"

    def of_pods(self, root: Root) -> Cel:
        """What a pod of each template requests."""
        init = f"(p.?initContainers.orValue([]) + {root.variable('agents')}[i])"
        amount = self._of_containers(init)
        if is_of_pods(self.limit.name):
            amount = self._of_pod(amount, init)
        overhead = self._sum("[p]", f"c.?overhead[?{self.key}]")
        return Cel(f"{root.variable('pods')}.transformList(i, p, {amount} + {overhead})")

    def _of_pod(self, of_containers: str, init: str) -> str:
        """What is stated of the pod as a whole takes the place of that, a limit only where no container states any."""
        limits = f"p.?resources.?limits[?{self.key}].hasValue()"
        if not self.limit.name.startswith("hugepages-"):
            every = f"(p.?containers.orValue([]) + {init})"
            limits += f" && !{every}.exists(c, {self._stated('c')}.hasValue())"
        whole = f"(p.?resources.?requests[?{self.key}].hasValue() || ({limits}))"
        return f"({whole} ? {self._sum('[p]', self._stated('c'))} : {of_containers})"

    def of_templates(self, root: Root) -> Cel:
        return _products(root, self.requests)

    def number(self) -> Numbers:
        requests, amounts = f"variables.{self.requests}[i]", f"variables.{self.amounts}[i]"
        words = f"string(variables.podCounts[i]) + ' x ' + {self._shown(requests)} + ' = ' + {self._shown(amounts)}"
        listed = _listed(f"string(j.name) + ' has ' + {words}")
        return Numbers(
            self.limit,
            rules.TOTALS,
            lambda root: one(total(f"{root.variable(self.amounts)}"), self.limit.name),
            self._place(),
            unit="m" if self.in_thousandths else "",
            shown=Cel(self._shown("n.amount")),
            parts=Cel(listed.text.replace("transformList(i, j, ", f"transformList(i, j, {requests} > 0, ", 1)),
        )

    def _shown(self, amount: str) -> str:
        if self.in_thousandths:
            return f"({amount} % 1000 == 0 ? string({amount} / 1000) : string({amount}) + 'm')"
        return f"string({amount})"

    def _place(self) -> Place:
        """Where most of it is requested."""
        number = _largest(Cel(f"variables.{self.amounts}"))
        states = f"({{}}.?resources.?requests[?{self.key}].hasValue() ? 'requests' : 'limits')"
        resource, agents = below("", self.key.text), f"variables.agents[{number}]"
        of_pod = f"'spec.replicatedJobs[' + string({number}) + '].template.spec.template.spec"
        lists, amounts = [], []
        for field in ("containers", "initContainers"):
            holder = f"{of_pod}.{field}[' + string(k) + '].resources.' + {states.replace('{}', 'c')} + {resource}"
            lists.append(f"p.?{field}.orValue([]).transformList(k, c, {holder})")
            amounts.append(f"p.?{field}.orValue([])")
        whole = f"[{of_pod}.resources.' + {states.replace('{}', 'p')} + {resource}]"
        paths = " + ".join([*lists, f"{agents}.map(c, '{AGENT}')", whole])
        holders = " + ".join([*amounts, agents, "[p]"])
        stated = self._counted(f"({holders})", self._stated("c"))
        largest = f"[{stated}].map(a, a.max() < 0 ? {of_pod}' : ({paths})[a.indexOf(a.max())])[0]"
        found = Cel(
            f"(variables.pods.size() == 0 ? 'spec.replicatedJobs' : [variables.pods[{number}]].map(p, {largest})[0])"
        )
        return found, found
