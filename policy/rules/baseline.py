"""The rule `forbid` of policies, about resources of the node that pods may not use. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from kube.model.field import ErrorType, FieldError, Path
from kube.model.meta import doc
from policy.cel import Cel, Index, Root, Writer, concat_lists, key_path, literal, pod_path, template_path, text, texts
from policy.fields import list_of
from policy.judged import JudgedJobSet, Namespace, Template
from policy.rule import PolicyRule, findings_only, job_fields
from policy.rules.node_uses import ITEM, USES, Field, Holder, Use
from policy.rules.resources import CLAIM_FIELDS, claims_of_groups, claims_of_pods, compile_claims
from policy.sentences import sentence

Forbidden = Annotated[str, doc("What is forbidden.", enum=list(USES))]
FORBIDDEN = sentence("forbid", ErrorType.FORBIDDEN, "{what} is not allowed", "{fix}")
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""Prefix of the annotations from which the API server reads the profile of a container without a field for it."""
APP_ARMOR_HARMLESS = ("", "runtime/default")
"""Harmless values of these annotations, beside values that begin with `APP_ARMOR_LOCAL`."""
APP_ARMOR_LOCAL = "localhost/"


def _find_uses(name: str, template: Template) -> Iterator[tuple[Path, Any]]:
    """The values by which the pods of a template use a resource of the node, each after its path."""
    yield from USES[name].find_in(template)
    if name == "resourceClaims":
        yield from ((path, None) for path in claims_of_pods(template))
    elif name == "appArmor":
        path = template.job_path.at("template", "metadata", "annotations")
        for key, value in template.rjob.pod_annotations.items():
            if key.startswith(APP_ARMOR) and not (value in APP_ARMOR_HARMLESS or value.startswith(APP_ARMOR_LOCAL)):
                yield path.at(key), value


def _is_used(name: str, template: Template) -> bool:
    return any(True for _ in _find_uses(name, template))


_USED = {name: partial(_is_used, name) for name in USES}
"""By the name of a use, a function that says whether the pods of a template have it. Policies share its results."""


def find_forbid(rule: tuple[str, ...], judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Pods may not use certain resources of their node.

    - `hostNetwork`, `hostPID`, `hostIPC`: the network, the processes, the shared memory of the node.
    - `hostPath`: volumes that are directories of the node. `hostPorts`: ports of the node.
    - `privileged`: privileged containers. `capabilities`: capabilities that container runtimes do not give every
      container. `procMount`: a /proc without the default masks. `hostProcess`: processes of a Windows node.
    - `seccomp`, `appArmor`: containers without a seccomp or AppArmor profile. `seLinux`: a type that is not meant for
      containers, or any user or role. `sysctls`: parameters of the kernel that other pods share.
    - `probeHosts`: probes and lifecycle hooks with a `host`, by which the kubelet sends requests to another host.

    - `resourceClaims`: claims for devices by pods and by their groups, and resources named
      `deviceclass.resource.kubernetes.io/CLASS`, for which kube-scheduler creates a claim.

    The level Baseline of the Pod Security Standards forbids all of these but `resourceClaims`. Init containers are
    checked, too. The rule never requires that a field is set. For the level Restricted, use Pod Security Admission.
    """
    for name in rule:
        use = USES[name]
        for template, is_used in zip(judged.templates, judged.each(_USED[name]), strict=True):
            for path, value in _find_uses(name, template) if is_used else ():
                yield FORBIDDEN.at(path, None if isinstance(value, dict) else value, what=use.label, fix=use.fix)
    if "resourceClaims" in rule:
        use = USES["resourceClaims"]
        yield from (FORBIDDEN.at(path, what=use.label, fix=use.fix) for path in claims_of_groups(judged))


_READ_FIELDS = (
    *(path for use in USES.values() for field in use.fields for path in field.paths),
    *job_fields("template.metadata.annotations{}"),
    *CLAIM_FIELDS,
)


@findings_only
def compile_forbid(rule: tuple[str, ...], writer: Writer, root: Root) -> Cel:
    return concat_lists(*(_compile_use(name, root, writer) for name in rule))


def _compile_field(field: Field, use: Use, root: Root, writer: Writer) -> Cel:
    """An expression for findings about harmful values of a field.

    In the CEL, `x` is an item of the list of holders, and `v` an item of a list that the field is in.
    """
    items, holder, holder_path = _HOLDERS[field.holder]
    if ITEM not in field.parts:
        value = f"{holder}{_optional_members(field.parts)}"
        finding = _finding(field, use, writer, f"{value}.value()", *holder_path, f".{'.'.join(field.parts)}")
        return Cel(f"{items(root)}.filter(x, {_is_harmful(value, field)}).map(x, {finding})")
    position = field.parts.index(ITEM)
    list_parts, item_parts = field.parts[:position], field.parts[position + 1 :]
    values, value = f"{holder}{_optional_members(list_parts)}", f"optional.of(v){_optional_members(item_parts)}"
    item_path = (f".{'.'.join(list_parts)}", Index("q"), "".join(f".{part}" for part in item_parts))
    finding = _finding(field, use, writer, f"{value}.value()", *holder_path, *item_path)
    findings = f"{values}.orValue([]).transformList(q, v, {_is_harmful(value, field)}, {finding})"
    return Cel(f"{items(root)}.filter(x, {values}.hasValue()).map(x, {findings}).flatten()")


def _optional_members(parts: Sequence[str]) -> str:
    """CEL that selects a member of members, each of which may be absent."""
    return "".join(f".?{part}" for part in parts)


def _finding(field: Field, use: Use, writer: Writer, value: str, *path: str | Cel | Index) -> Cel:
    apart = Cel(f"string({value})") if field.harmless else None
    return writer.at(FORBIDDEN, *pod_path("x.j", *path), suffix=apart, what=use.label, fix=use.fix)


def _is_harmful(value: str, field: Field) -> str:
    """A CEL condition: an optional value is present and not harmless."""
    harmless = ", ".join(str(literal(item)) for item in field.harmless)
    return f"{value}.hasValue()" + (f" && !({value}.value() in [{harmless}])" if harmless else "")


def _pods(root: Root) -> Cel:
    """A list of the pod specs `p`, each as a map with the index `j` of the ReplicatedJob."""
    return Cel(f"{root.variable('changedPods')}.transformList(i, p, {{'j': dyn(i), 'p': dyn(p)}})")


_HOLDERS: Mapping[Holder, tuple[Callable[[Root], Cel], str, tuple[str | Cel | Index, ...]]] = {
    Holder.POD: (_pods, "x.p", ()),
    Holder.CONTAINER: (lambda root: root.variable("containers"), "x.c", (".", Cel("string(x.f)"), Index("x.k"))),
    Holder.VOLUME: (lambda root: root.variable("volumes"), "x.v", (".volumes", Index("x.k"))),
}
"""For each kind of holder: the list of items, the CEL of the holder in an item `x`, and the holder's path.

Of an item, `x.f` is the field with the list of containers, and `x.k` is the index in the list.
"""


def _compile_use(name: str, root: Root, writer: Writer) -> Cel:
    """An expression for the findings about a use."""
    use = USES[name]
    if name == "resourceClaims":
        return compile_claims(root, lambda at: writer.at(FORBIDDEN, *at, what=use.label, fix=use.fix))
    by_field = concat_lists(*(_compile_field(field, use, root, writer) for field in use.fields))
    return concat_lists(by_field, _compile_app_armor(root, writer)) if name == "appArmor" else by_field


def _compile_app_armor(root: Root, writer: Writer) -> Cel:
    """An expression for the findings about annotations with AppArmor profiles."""
    use = USES["appArmor"]
    path, path_key = template_path("i", ".template.spec.template")
    annotation_path = key_path(".metadata.annotations", "key")
    at = (Cel(f"({path}) + {annotation_path}"), Cel(f"({path_key}) + {annotation_path}"))
    finding = writer.at(FORBIDDEN, *at, suffix=Cel("string(value)"), what=use.label, fix=use.fix)
    local = f"value.startsWith({text(APP_ARMOR_LOCAL)})"
    is_harmful = f"key.startsWith({text(APP_ARMOR)}) && !(value in {texts(APP_ARMOR_HARMLESS)} || {local})"
    annotations = "j.?template.?spec.?template.?metadata.?annotations.orValue({})"
    by_annotation = f"{annotations}.transformList(key, value, {is_harmful}, {finding})"
    return Cel(f"{root.variable('jobs')}.transformList(i, j, {by_annotation}).flatten()")


ForbidRule = Annotated[
    tuple[Forbidden, ...] | None,
    list_of("What pods may not use of their node."),
    PolicyRule("forbid", (FORBIDDEN,), find_forbid, compile_forbid, reads=_READ_FIELDS),
]
