"""Rules about containers, in CEL. Pure."""

from collections.abc import Callable, Mapping

from api.field import Rule
from api.requests import is_of_pods
from policy.compiled.cel import Cel, Index, Place, Root, Say, added, of_pod, texts
from policy.compiled.metadata import below
from policy.compiled.resources import claims
from policy.compiled.words import Compiled
from policy.rule_types import RequiredResources
from policy.rules import containers as rules


def required_requests(rule: RequiredResources, say: Say) -> Compiled:
    return _stated(rule, rules.REQUEST, ("requests", "limits"), say)


def required_limits(rule: RequiredResources, say: Say) -> Compiled:
    return _stated(rule, rules.LIMIT, ("limits",), say)


def _stated(rule: RequiredResources, missing: Rule, kinds: tuple[str, ...], say: Say) -> Compiled:
    """Findings about containers that do not state a resource in any of these ways."""
    of_pods = texts(filter(is_of_pods, rule.resources))

    def stated(holder: str) -> str:
        return " || ".join(f"{holder}.?resources.?{kind}[?r].hasValue()" for kind in kinds)

    def found(root: Root) -> Cel:
        at = below(f".resources.{kinds[0]}", "r")
        finding = say.at(missing, *_in_container(at), resource=Cel("r"))
        whole = f"(r in {of_pods} && ({stated('x.p')}))" if any(map(is_of_pods, rule.resources)) else "false"
        containers = root.variable("containers")
        return Cel(
            f"{texts(rule.resources)}.map(r, {containers}.filter(x, !({stated('x.c')} || {whole})).map(x, {finding}))"
            ".flatten()"
        )

    return Compiled(found)


def _in_container(*rest: str | Cel | Index) -> Place:
    return of_pod("x.j", ".", Cel("string(x.f)"), Index("x.k"), *rest)


def forbid(rule: tuple[str, ...], say: Say) -> Compiled:
    return Compiled(lambda root: added(*(_FORBIDDEN[what](root, say) for what in rule)))


def _host_network(root: Root, say: Say) -> Cel:
    finding = say.at(
        rules.FORBIDDEN, *of_pod("i", ".hostNetwork"), what="the network of the node", fix="remove hostNetwork"
    )
    return Cel(f"{root.variable('changedPods')}.transformList(i, p, p.?hostNetwork.orValue(false), {finding})")


def _host_path(root: Root, say: Say) -> Cel:
    finding = say.at(
        rules.FORBIDDEN,
        *of_pod("x.j", ".volumes", Index("x.k"), ".hostPath"),
        what="a directory of the node",
        fix="use a claim, an emptyDir or an image volume",
    )
    return Cel(f"{root.variable('volumes')}.filter(x, has(x.v.hostPath)).map(x, {finding})")


def _privileged(root: Root, say: Say) -> Cel:
    finding = say.at(
        rules.FORBIDDEN,
        *_in_container(".securityContext.privileged"),
        what="a privileged container",
        fix="remove privileged, and add the capabilities",
    )
    return Cel(
        f"{root.variable('containers')}.filter(x, x.c.?securityContext.?privileged.orValue(false)).map(x, {finding})"
    )


def _host_ports(root: Root, say: Say) -> Cel:
    finding = say.at(
        rules.FORBIDDEN,
        *_in_container(".ports", Index("q"), ".hostPort"),
        what="a port of the node",
        fix="remove hostPort: pods have addresses",
    )
    ports = f"x.c.?ports.orValue([]).transformList(q, port, port.?hostPort.orValue(0) != 0, {finding})"
    return Cel(f"{root.variable('containers')}.filter(x, has(x.c.ports)).map(x, {ports}).flatten()")


def _resource_claims(root: Root, say: Say) -> Cel:
    fix = "remove it, and request a resource that counts them"
    return claims(root, lambda at: say.at(rules.FORBIDDEN, *at, what="a claim for devices", fix=fix))


_FORBIDDEN: Mapping[str, Callable[[Root, Say], Cel]] = {
    "hostNetwork": _host_network,
    "hostPath": _host_path,
    "hostPorts": _host_ports,
    "privileged": _privileged,
    "resourceClaims": _resource_claims,
}
