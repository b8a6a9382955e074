"""Rules about which resources and devices pods ask for, in CEL. Pure."""

from collections.abc import Callable

from kube.model.requests import DEVICE_CLASS
from policy.compiled.cel import Cel, Index, Place, Root, Say, added, of_pod, of_template, place, quoted, text, texts
from policy.compiled.metadata import below
from policy.compiled.words import Compiled, allowed_are
from policy.rules import resources as rules

_KINDS = ("requests", "limits")
_NAME = below("", "string(r)")
GROUPS = "{}.?spec.?scheduling.?replicatedJobs.orValue([])"
"""Groups of ReplicatedJobs in a JobSet."""
OF_JOB = "j.?template.?spec.?scheduling.?resourceClaims.orValue([])"
"""Claims of the template of Jobs `j`, which the pods of a Job share."""
OF_CLASS = f"string(r).startsWith({text(DEVICE_CLASS)})"


def allowed_resources(rule: tuple[str, ...], say: Say) -> Compiled:
    def finding(at: Place) -> Cel:
        return say.at(rules.RESOURCE, *at, shown=quoted(Cel("string(r)")), allowed=allowed_are(rule))

    return Compiled(lambda root: added(*_findings_by_resource(root, f"!(r in {texts(rule)})", finding)))


def _findings_by_resource(root: Root, condition: str, finding: Callable[[Place], Cel]) -> list[Cel]:
    """Findings about each resource `r` that a pod, its containers or its overhead name, where the condition holds."""
    pods, lists = root.variable("changedPods"), []

    def each(names: str, at: Place) -> str:
        return f"{names}.orValue({{}}).transformList(r, a, {condition}, {finding(at)})"

    for kind in _KINDS:
        in_container = of_pod("x.j", ".", Cel("string(x.f)"), Index("x.k"), f".resources.{kind}", _NAME)
        found = each(f"x.c.?resources.?{kind}", in_container)
        lists.append(f"{root.variable('containers')}.filter(x, has(x.c.resources)).map(x, {found}).flatten()")
        found = each(f"p.?resources.?{kind}", of_pod("i", f".resources.{kind}", _NAME))
        lists.append(f"{pods}.transformList(i, p, has(p.resources), {found}).flatten()")
    found = each("p.?overhead", of_pod("i", ".overhead", _NAME))
    lists.append(f"{pods}.transformList(i, p, has(p.overhead), {found}).flatten()")
    return [Cel(each) for each in lists]


def claims(root: Root, finding: Callable[[Place], Cel]) -> Cel:
    """Findings about each claim for devices: of pods, by resources that stand for a DeviceClass, of groups."""
    claim = finding(of_pod("i", ".resourceClaims", Index("k")))
    of_pods = (
        f"{root.variable('changedPods')}.transformList(i, p, p.?resourceClaims.orValue([])"
        f".transformList(k, c, {claim})).flatten()"
    )
    at = of_template("i", ".template.spec.scheduling.resourceClaims", Index("k"))
    found = f"{OF_JOB}.transformList(k, c, {finding(at)})"
    of_groups = [Cel(f"{root.variable('jobs')}.transformList(i, j, {found}).flatten()")]
    for field in ("", ".job"):
        at = place("spec.scheduling.replicatedJobs", Index("i"), f"{field}.resourceClaims", Index("k"))
        holder = f"e{field.replace('.', '.?')}"
        found = f"{holder}.?resourceClaims.orValue([]).transformList(k, c, {finding(at)})"
        of_groups.append(Cel(f"{GROUPS.format(root.name)}.transformList(i, e, {found}).flatten()"))
    return added(Cel(of_pods), *_findings_by_resource(root, OF_CLASS, finding), *of_groups)
