"""The rules about where pods may run: tolerations, affinity, spreading, gates. Pure."""

from collections.abc import Iterator
from typing import Any

from kube.model.field import FieldError, Path
from kube.model.job_rules.checks import (
    duplicates,
    each,
    entries,
    fields,
    forbidden,
    invalid,
    member,
    missing,
    needs,
    number,
    one_of,
    positive,
    text,
)
from kube.model.job_rules.forms import label, label_key
from kube.model.job_rules.metadata import key, key_member, operator, selector
from kube.model.jsontree import dig, items
from kube.model.validation import label_value

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _toleration(path: Path, value: Any) -> Iterator[FieldError]:
    operator_name, text_value = value.get("operator") or "", value.get("value") or ""
    operator_path = path.at("operator")
    if not value.get("key") and operator_name != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(operator_path, operator_name, detail)
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(path.at("effect"), value.get("effect") or "", detail)
    if operator_name in {"", "Equal"}:
        if complaints := label_value(str(text_value)):
            yield invalid(operator_path, text_value, ";".join(complaints))
    elif operator_name == "Exists":
        if text_value:
            yield invalid(operator_path, text_value, "value must be empty when `operator` is 'Exists'")
    elif operator_name not in {"Lt", "Gt"}:
        yield from one_of("Equal", "Exists")(operator_path, operator_name)


TOLERATION = fields(_toleration, key=text(label_key), effect=one_of(*_EFFECTS))
_VALUES = each(text(label_value))
_NODE_TERM = fields(operator(numbers=True), key_member)


def _field_term(path: Path, value: Any) -> Iterator[FieldError]:
    if value.get("operator") not in {"In", "NotIn"}:
        yield invalid(path.at("operator"), value.get("operator") or "", "not a valid selector operator")
    elif len(value.get("values") or ()) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield missing(path.at("values"), detail)
    if value.get("key") != "metadata.name":
        yield invalid(path.at("key"), value.get("key") or "", "not a valid field selector key")


_REQUIRED_TERM = fields(
    matchExpressions=each(fields(operator(numbers=True), key_member, values=_VALUES)),
    matchFields=each(fields(_field_term)),
)
_PREFERRED_TERM = fields(matchExpressions=each(_NODE_TERM), matchFields=each(fields(_field_term)))


def _require_terms(path: Path, value: Any) -> Iterator[FieldError]:
    if not value.get("nodeSelectorTerms"):
        yield missing(path.at("nodeSelectorTerms"), "must have at least one node selector term")


def _label_keys(path: Path, value: Any) -> Iterator[FieldError]:
    """Check matchLabelKeys and mismatchLabelKeys, which add labels with the pod's own values to a selector."""
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = value.get(field) or []
        if keys and value.get("labelSelector") is None:
            yield forbidden(path.at(field), "must not be specified when labelSelector is not set")
        else:
            yield from each(key)(path.at(field), keys)
    positions = {name: i for i, name in enumerate(items(value, "matchLabelKeys"))}
    selected = set(dig(value, "labelSelector", "matchLabels") or ())
    for _, term in entries(dig(value, "labelSelector", "matchExpressions")):
        name = term.get("key")
        if name in positions and name in selected:
            detail = "exists in both matchLabelKeys and labelSelector"
            yield invalid(path.at("matchLabelKeys", positions[name]), name, detail)
        selected.add(name)
    mismatched = set(items(value, "mismatchLabelKeys"))
    for i, name in enumerate(items(value, "matchLabelKeys")):
        if name in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(path.at("matchLabelKeys", i), name, detail)


_TOPOLOGY = needs("topologyKey", detail="can not be empty")
_POD_TERM = fields(
    _label_keys,
    _TOPOLOGY,
    member("topologyKey", "", key),
    labelSelector=selector,
    namespaceSelector=selector,
    namespaces=each(text(label, empty=True)),
)


_WEIGHT = member("weight", 0, number(lambda weight: 1 <= weight <= 100, "must be in the range 1-100"))
_PODS = fields(
    requiredDuringSchedulingIgnoredDuringExecution=each(_POD_TERM),
    preferredDuringSchedulingIgnoredDuringExecution=each(fields(_WEIGHT, podAffinityTerm=_POD_TERM)),
)
AFFINITY = fields(
    nodeAffinity=fields(
        requiredDuringSchedulingIgnoredDuringExecution=fields(_require_terms, nodeSelectorTerms=each(_REQUIRED_TERM)),
        preferredDuringSchedulingIgnoredDuringExecution=each(fields(_WEIGHT, preference=_PREFERRED_TERM)),
    ),
    podAffinity=_PODS,
    podAntiAffinity=_PODS,
)


def _min_domains(path: Path, value: Any) -> Iterator[FieldError]:
    action = value.get("whenUnsatisfiable") or ""
    if value.get("minDomains") is not None and action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(path.at("minDomains"), value["minDomains"], detail)


_INCLUSION = one_of("Honor", "Ignore", empty=True)
_CONSTRAINT = fields(
    _TOPOLOGY,
    _min_domains,
    _label_keys,
    member("maxSkew", 0, positive),
    member("whenUnsatisfiable", "", one_of("DoNotSchedule", "ScheduleAnyway", empty=True)),
    minDomains=positive,
    nodeAffinityPolicy=_INCLUSION,
    nodeTaintsPolicy=_INCLUSION,
    labelSelector=selector,
)


def spread_constraints(path: Path, value: Any) -> Iterator[FieldError]:
    """A check of the constraints. Of two equal constraints the API server reports the first."""
    yield from each(_CONSTRAINT)(path, value)
    yield from duplicates(
        (
            path.at(i, "{topologyKey, whenUnsatisfiable}"),
            f"{{{constraint.get('topologyKey')}, {constraint.get('whenUnsatisfiable')}}}",
        )
        for i, constraint in reversed(list(entries(value)))
    )


def scheduling_gates(path: Path, value: Any) -> Iterator[FieldError]:
    """A check of the gates: each name has the form of a label key and occurs once."""
    names = [(path.at(i), str(gate.get("name") or "")) for i, gate in entries(value)]
    for at, name in names:
        yield from key(at, name)
    yield from duplicates(names)
