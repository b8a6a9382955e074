"""Sums of the requests for one resource by all pods of a set, in Python and in CEL. Pure.

The CEL counts like `kube.model.requests`. In CEL, amounts are whole numbers: of cpu in thousandths, of all other
resources in whole units.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from kube.model.field import SPEC, ErrorType, FieldError, Path
from kube.model.requests import LARGEST_AMOUNT, is_pod_resource
from policy.cel import (
    NO_TEXTS,
    Cel,
    CelPath,
    Expression,
    Root,
    Writer,
    concat_lists,
    container_path,
    key_path,
    pod_path,
    quote_text,
    text,
    texts,
)
from policy.judged import AGENT, JudgedJobSet, Namespace
from policy.limits import (
    LARGEST_NUMBER,
    NO_BOUND,
    CelNumbers,
    Number,
    ResourceLimit,
    as_text,
    cel_limit,
    cel_sum,
    effective_limit,
    is_amount,
    limit_sentence,
    single_number,
)
from policy.rule import Compiled
from policy.rules.sizes import cel_largest, cel_parts, first_parts
from policy.sentences import sentence

TOTALS = limit_sentence("maxTotals", "reduce replicas, parallelism or requests: {parts}")
UNCOUNTED = sentence(
    "maxTotals",
    ErrorType.INVALID,
    "an amount that cannot be counted",
    f'write a number from 0 to {LARGEST_AMOUNT}, with a unit if it needs one, such as 8, "500m" or "64Gi"',
    "uncounted",
)


def total_request(limit: ResourceLimit, judged: JudgedJobSet, namespace: Namespace) -> Number:
    """The sum of the requests for a resource by all pods of a set, and its limit."""
    limit_in_force = effective_limit(limit, namespace)
    find_path = partial(_largest_request_path, judged, limit.name)
    parts = partial(_resource_parts, judged, limit.name, limit_in_force.text)
    return Number(limit.name, judged.requests.get(limit.name, 0), limit_in_force, find_path, parts)


def find_uncountable(
    limits: Sequence[ResourceLimit], judged: JudgedJobSet, namespace: Namespace
) -> Iterator[FieldError]:
    """Findings about amounts that are no quantity or are above LARGEST_AMOUNT, of the resources that have a limit."""
    names = {limit.name for limit in limits if effective_limit(limit, namespace) != NO_BOUND}
    for template in judged.templates:
        for path, name, value in template.uncountable_amounts:
            if name in names:
                yield UNCOUNTED.at(path, str(value))


def _largest_request_path(judged: JudgedJobSet, resource: str) -> Path:
    """The path of a request for the resource, in the template whose pods request most of it."""
    if not judged.templates:
        return SPEC.at("replicatedJobs")
    largest = max(judged.templates, key=lambda template: template.pod_count * template.requests.get(resource, 0))
    return largest.request_path(resource)


def _resource_parts(judged: JudgedJobSet, name: str, limit: str) -> list[str]:
    return first_parts(
        f"{template.rjob.name} has {template.pod_count} x {as_text(template.requests[name], limit)}"
        f" = {as_text(template.pod_count * template.requests[name], limit)}"
        for template in judged.templates
        if name in template.requests
    )


_KEY_OF_R = key_path("", "r")  # `r` is the CEL variable with the name of a resource


def _optional_request(holder: str, key: str) -> str:
    """CEL: the request of a container, or of a pod as a whole, for a resource, as an optional quantity."""
    return f"{holder}.?resources.?requests[?{key}].or({holder}.?resources.?limits[?{key}])"


def _field_of_request(holder: str, key: str) -> str:
    """CEL: the name of the field that `_optional_request` reads, `requests` or `limits`."""
    return f"({holder}.?resources.?requests[?{key}].hasValue() ? 'requests' : 'limits')"


def _is_counted(value: str) -> str:
    """A CEL condition: a text is an amount that can be counted."""
    return f"{is_amount(value)} && !quantity({value}).isGreaterThan(quantity('{LARGEST_AMOUNT}'))"


@dataclass(frozen=True, slots=True)
class CelRequests:
    """Writes the CEL for one resource of the rule `maxTotals`.

    In the CEL, `i` is the index of a template, `j` its ReplicatedJob, and `p` its pod spec. `c` is a container, or the
    pod spec where a pod has a request of its own, and `k` its index. `t` is the text of an amount, `q` its quantity.
    - `pod_variable`: the name of the variable with the request of one pod of each template.
    - `template_variable`: the name of the variable with the request of all pods of each template.
    """

    limit: ResourceLimit
    pod_variable: str
    template_variable: str

    @property
    def key(self) -> Cel:
        """The literal for the name of the resource."""
        return text(self.limit.name)

    @property
    def counts_thousandths(self) -> bool:
        """Whether amounts in the CEL are thousandths, which cpu needs, and not whole units."""
        return self.limit.name == "cpu"

    def _request(self, holder: str) -> str:
        """The request of a container or pod for the resource, as an optional quantity."""
        return _optional_request(holder, str(self.key))

    def _amounts(self, holders: str, quantity: str) -> str:
        """A list of whole numbers: the amounts of `holders`, rounded up, and -1 for an amount that cannot be counted.

        `holders`: a list of containers or pods. `quantity`: the optional quantity of an item `c` of the list.
        """
        scale, unit = (" * 1000.0", " + 'm'") if self.counts_thousandths else ("", "")
        nearest = f"int(q.asApproximateFloat(){scale} + 0.5)"
        rounded_up = f"[{nearest}].map(w, quantity(string(w){unit}).isLessThan(q) ? w + 1 : w)"
        amount = f"[quantity(t)].map(q, {rounded_up}[0])[0]"
        return f"{holders}.map(c, string({quantity}.orValue(dyn('')))).map(t, {_is_counted('t')} ? {amount} : -1)"

    def _sum(self, holders: str, quantity: str) -> str:
        """The sum of the amounts of `_amounts` that can be counted."""
        return cel_sum(f"{self._amounts(holders, quantity)}.filter(n, n > 0)")

    def _container_request(self, init: str) -> str:
        """The request of containers and sidecars, or of an init container with earlier sidecars if this is more.

        `init`: the list of init containers.
        """
        is_sidecar = "c.?restartPolicy.orValue('') == 'Always'"
        request = self._request("c")
        of_containers = self._sum("p.?containers.orValue([])", request)
        of_sidecars = self._sum(f"{init}.filter(c, {is_sidecar})", request)
        earlier = self._sum(f"{init}.slice(0, k).filter(c, {is_sidecar})", request)
        starting = f"{init}.transformList(k, c, !({is_sidecar}), {self._sum('[c]', request)} + {earlier})"
        return f"([{of_containers} + {of_sidecars}] + {starting}).max()"

    def pod_requests(self, root: Root) -> Cel:
        """A list with an item for each template: the request of one of its pods, including its restart agent."""
        init = f"(p.?initContainers.orValue([]) + {root.variable('agents')}[i])"
        amount = self._container_request(init)
        if is_pod_resource(self.limit.name):
            amount = self._pod_request(amount, init)
        overhead = self._sum("[p]", f"c.?overhead[?{self.key}]")
        return Cel(f"{root.variable('pods')}.transformList(i, p, {amount} + {overhead})")

    def _pod_request(self, of_containers: str, init: str) -> str:
        """The request of the pod as a whole if the pod states it, else `of_containers`. `init`: its init containers."""
        limits = f"p.?resources.?limits[?{self.key}].hasValue()"
        if not self.limit.name.startswith("hugepages-"):
            all_containers = f"(p.?containers.orValue([]) + {init})"
            limits += f" && !{all_containers}.exists(c, {self._request('c')}.hasValue())"
        is_stated = f"(p.?resources.?requests[?{self.key}].hasValue() || ({limits}))"
        return f"({is_stated} ? {self._sum('[p]', self._request('c'))} : {of_containers})"

    def number(self) -> CelNumbers:
        """The sum of the requests of all pods, and its limit."""
        of_pod, of_template = f"variables.{self.pod_variable}[i]", f"variables.{self.template_variable}[i]"
        product = f"{self._format_amount(of_pod)} + ' = ' + {self._format_amount(of_template)}"
        words = f"string(variables.podCounts[i]) + ' x ' + {product}"
        return CelNumbers(
            self.limit,
            TOTALS,
            lambda root: single_number(cel_sum(f"{root.variable(self.template_variable)}"), self.limit.name),
            self._path(),
            unit="m" if self.counts_thousandths else "",
            amount_text=Cel(self._format_amount("n.amount")),
            parts=cel_parts(f"{of_pod} > 0, string(j.name) + ' has ' + {words}"),
        )

    def _format_amount(self, amount: str) -> str:
        """The text of an amount as a quantity."""
        if self.counts_thousandths:
            return f"({amount} % 1000 == 0 ? string({amount} / 1000) : string({amount}) + 'm')"
        return f"string({amount})"

    def _path(self) -> Cel:
        """The path of the largest request in the template whose pods request most."""
        index = cel_largest(Cel(f"variables.{self.template_variable}"))
        key, agents = str(self.key), f"variables.agents[{index}]"
        resource_path = key_path("", key)
        pod_path_text = f"'spec.replicatedJobs[' + string({index}) + '].template.spec.template.spec"
        path_lists, holder_lists = [], []
        for field in ("containers", "initContainers"):
            resources_path = f"{pod_path_text}.{field}[' + string(k) + '].resources.'"
            item_path = f"{resources_path} + {_field_of_request('c', key)} + {resource_path}"
            path_lists.append(f"p.?{field}.orValue([]).transformList(k, c, {item_path})")
            holder_lists.append(f"p.?{field}.orValue([])")
        of_pod = f"[{pod_path_text}.resources.' + {_field_of_request('p', key)} + {resource_path}]"
        paths = " + ".join([*path_lists, f"{agents}.map(c, '{AGENT}')", of_pod])
        holders = " + ".join([*holder_lists, agents, "[p]"])
        amounts = self._amounts(f"({holders})", self._request("c"))
        largest = f"[{amounts}].map(a, a.max() < 0 ? {pod_path_text}' : ({paths})[a.indexOf(a.max())])[0]"
        return Cel(
            f"(variables.pods.size() == 0 ? 'spec.replicatedJobs' : [variables.pods[{index}]].map(p, {largest})[0])"
        )


def multiply_by_pods(variable: str, root: Root) -> Cel:
    """A list with an item for each template: the amount of all its pods. `variable`: the list of amounts of one pod."""
    one_pod = f"{root.variable(variable)}[i]"
    product = f"double(n) * double({one_pod}) < double({LARGEST_NUMBER}) ? n * {one_pod} : {LARGEST_NUMBER}"
    return Cel(f"{root.variable('podCounts')}.transformList(i, n, {product})")


def compile_uncountable(limits: Sequence[ResourceLimit], writer: Writer) -> Expression:
    """An expression for the findings of `find_uncountable`."""
    at_container = container_path(".resources.", Cel(_field_of_request("x.c", "r")), _KEY_OF_R)
    at_pod = pod_path("i", ".resources.", Cel(_field_of_request("p", "r")), _KEY_OF_R)
    at_overhead = pod_path("i", ".overhead", _KEY_OF_R)

    def amount_findings(names: Cel, call: str, quantity: str, at: CelPath) -> Cel:
        """Findings about one kind of amounts. `call`: CEL without its last argument. `quantity` is optional."""
        finding = writer.at(UNCOUNTED, *at, quoted=quote_text(Cel("t")))
        findings_of_holder = f"[string({quantity}.orValue(dyn(0)))].filter(t, !({_is_counted('t')})).map(t, {finding})"
        return Cel(f"{names}.map(r, {call}, {findings_of_holder}).flatten()).flatten()")

    def findings(root: Root) -> Cel:
        pods = f"{root.variable('changedPods')}.transformList(i, p"
        names = _resources_in_force(limits)
        lists = [
            amount_findings(names, f"{root.variable('containers')}.map(x", _optional_request("x.c", "r"), at_container),
            amount_findings(names, f"{pods}, has(p.overhead)", "p.?overhead[?r]", at_overhead),
        ]
        if of_pods := [limit for limit in limits if is_pod_resource(limit.name)]:
            names = _resources_in_force(of_pods)
            lists.append(amount_findings(names, f"{pods}, has(p.resources)", _optional_request("p", "r"), at_pod))
        return concat_lists(*lists)

    return findings if limits else Compiled().findings


def _resources_in_force(limits: Sequence[ResourceLimit]) -> Cel:
    """A list of the names of the resources that have a limit in the namespace of the JobSet."""
    with_max = texts(limit.name for limit in limits if limit.max is not None)
    by_namespace = (
        Cel(f"({cel_limit(limit)}.size() > 0 ? [{text(limit.name)}] : {NO_TEXTS})")
        for limit in limits
        if limit.max is None
    )
    return Cel(f"({concat_lists(with_max if with_max.text != '[]' else NO_TEXTS, *by_namespace)})")
