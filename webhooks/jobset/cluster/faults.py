"""Faults that the API server finds in the children, as findings about the JobSet. Pure.

A finding has the API server's message, the path in the JobSet, and a fix if the fault is common.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from api.jobset import JobSet
from kube.errors import Cause
from kube.model.field import NAME_PATH, SPEC, ErrorType, FieldError, Layer, Parts, Path, Rule
from kube.model.jsontree import dig
from kube.model.meta import JSON
from kube.model.quantity import parse_quantity
from kube.model.suggest import did_you_mean, nearest
from kube.model.validation import as_label
from webhooks.jobset.cluster.answer_texts import parts_of
from webhooks.jobset.cluster.children import ChildJob, claim_names, service_name_path
from webhooks.jobset.cluster.claims import Claim
from webhooks.jobset.cluster.decode import DecodeProblem
from webhooks.jobset.cluster.verdict import warning


def _rule(name: str, fix: str, about: str = "child Job") -> Rule:
    return Rule(
        id=f"child-{name}",
        type=ErrorType.INVALID,
        message=f"what the API server says about the {about}",
        fix=fix,
        source="validation by the API server",
        layer=Layer.CLUSTER,
    )


RESTART_POLICY = _rule("restart-policy", "write OnFailure or Never")
RESTART_NEVER = _rule("restart-policy-never", "write Never, or remove podFailurePolicy")
IMAGE = _rule("image", "name the image to run")
CONTAINERS = _rule("containers", "give the pod a container with name and image")
REQUESTS = _rule("requests-above-limits", "lower the request or raise the limit")
LIMITS = _rule("limits-missing", "set the same amount under limits")
DEVICES = _rule("devices", "devices are whole numbers: write {guess}")
RESOURCE_NAME = _rule("resource-name", "write cpu, memory, ephemeral-storage, or a name with a domain (nvidia.com/gpu)")
DUPLICATE = _rule("duplicate", "give each a name of its own")
VOLUME_MOUNT = _rule("volume-mount", "{guess}")
MOUNT_PATH = _rule("mount-path", "mount one volume only at a path")
VOLUME_SOURCE = _rule("volume-source", "keep one source for each volume")
VALUE_FROM = _rule("env-value-from", "give value or valueFrom, not both")
ENV_NAME = _rule("env-name", "use letters, digits, '_', '-' and '.'")
LABEL = _rule("label-form", "{guess}")
ORDERED = _rule("exit-codes-ordered", "write the codes in ascending order, each once")
PROBE = _rule("probe", "give it one of exec, httpGet, tcpSocket, grpc")
NEGATIVE = _rule("negative", "write 0 or more")
COMPLETIONS = _rule("completions", "set completions (how many pods have to succeed), or completionMode NonIndexed")
SELECTOR = _rule("selector", "remove selector: every Job gets one of its own")
OWN_LABEL = _rule("label-of-job", "remove it: every Job sets this label itself")
FAILURE_CONTAINER = _rule("pod-failure-container", "{guess}")
UNSUPPORTED = _rule("unsupported", "{guess}")
JOB = _rule("job", "")
CLAIM = _rule("claim", "", "volume claim")
SERVICE = _rule("service", "set spec.network.subdomain to a name such as training", "headless Service")
TYPE = Rule(
    id="child-type",
    type=ErrorType.TYPE_INVALID,
    message="the API server cannot read the child Job: {why}",
    fix="{fix}",
    source="decoding of batch/v1 Job by the API server",
    layer=Layer.CLUSTER,
)
REFUSED = warning("child-refused-now", "{what} would be refused now: {why}", source="child dry run")


@dataclass(frozen=True, slots=True)
class _CommonFault:
    """A common fault: patterns of its path (without indices) and of its message. `hint` gives the fix, else `rule`."""

    rule: Rule
    path_pattern: re.Pattern[str]
    message_pattern: re.Pattern[str]
    hint: Callable[[ChildJob, str], str] | None = None


def _common_fault(
    rule: Rule, path: str, message: str, hint: Callable[[ChildJob, str], str] | None = None
) -> _CommonFault:
    return _CommonFault(rule, re.compile(path), re.compile(message), hint)


_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def _volume_names(child: ChildJob) -> list[str]:
    return [volume.get("name") or "" for volume in child.pod_spec.get("volumes") or ()]


def _volume_hint(child: ChildJob, message: str) -> str:
    names = dict.fromkeys([*_volume_names(child), *claim_names(child.js)])
    guess = did_you_mean(_first_quoted(message), names, intro="volumes are")
    return guess or "add a volume of this name to the pod, or a template to volumeClaimPolicies"


def _container_hint(child: ChildJob, message: str) -> str:
    spec = child.pod_spec
    names = [each.get("name") or "" for key in ("containers", "initContainers") for each in spec.get(key) or ()]
    return did_you_mean(_first_quoted(message), names, intro="containers are")


def _supported_hint(_: ChildJob, message: str) -> str:
    word, supported = message.split("supported values: ", 1)
    likely_value = nearest(_first_quoted(word), _QUOTED.findall(supported))
    return f'did you mean "{likely_value}"?' if likely_value else ""


def _label_hint(_: ChildJob, message: str) -> str:
    example = as_label(_first_quoted(message))
    return "use lower case letters, digits and '-'" + (f', such as "{example}"' if example else "")


def _devices_hint(_: ChildJob, message: str) -> str:
    amount = parse_quantity(_first_quoted(message))
    return DEVICES.fix.format(guess=1 if amount is None else math.ceil(amount))


def _first_quoted(text: str) -> str:
    quoted = _QUOTED.search(text)
    return quoted[1] if quoted else ""


_ANY = ""
_COMMON_FAULTS: tuple[_CommonFault, ...] = (
    _common_fault(RESTART_NEVER, r"template\.spec\.restartPolicy$", r"podFailurePolicy"),
    _common_fault(RESTART_POLICY, r"template\.spec\.restartPolicy$", r"^(Required|Unsupported) value"),
    _common_fault(IMAGE, r"\.(containers|initContainers)\.image$", r"^Required value"),
    _common_fault(CONTAINERS, r"\.containers$", r"^Required value"),
    _common_fault(REQUESTS, r"\.resources\.requests", r"less than or equal to .* limit"),
    _common_fault(LIMITS, r"\.resources\.limits", r"[Ll]imit must be set"),
    _common_fault(DEVICES, r"\.resources\.(requests|limits)", r": must be an integer$", _devices_hint),
    _common_fault(RESOURCE_NAME, r"\.resources\.", r"must be a standard resource"),
    _common_fault(DUPLICATE, r"\.name$", r"^Duplicate value"),
    _common_fault(VOLUME_MOUNT, r"\.volumeMounts\.name$", r"^Not found", _volume_hint),
    _common_fault(MOUNT_PATH, r"\.volumeMounts\.mountPath$", r"must be unique"),
    _common_fault(VOLUME_SOURCE, r"\.volumes\.", r"more than 1 volume type"),
    _common_fault(VALUE_FROM, r"\.env\.valueFrom", r"may not be specified when"),
    _common_fault(ENV_NAME, r"\.env\.name$", r"environment variable name"),
    _common_fault(LABEL, r"\.(containers|initContainers|volumes)\.name$", r"RFC 1123 label", _label_hint),
    _common_fault(ORDERED, r"\.onExitCodes\.values$", r"must be ordered"),
    _common_fault(PROBE, r"(Probe|lifecycle\.\w+)$", r"handler type"),
    _common_fault(NEGATIVE, _ANY, r"must be greater than or equal to 0"),
    _common_fault(COMPLETIONS, r"^spec\.completions$", r"^Required value"),
    _common_fault(SELECTOR, r"^spec\.selector", r"not auto-generated"),
    _common_fault(OWN_LABEL, r"^spec\.template\.(metadata\.)?labels", r": must be '"),
    _common_fault(
        FAILURE_CONTAINER, r"\.onExitCodes\.containerName$", r"must be one of the container", _container_hint
    ),
    _common_fault(UNSUPPORTED, _ANY, r"^Unsupported value: .*supported values: ", _supported_hint),
)
MAX_FAULTS = 500
"""The most findings about one child. A fault counts once for each ReplicatedJob that the child stands for."""
_TYPES = {kind.value: kind for kind in ErrorType}
_JSON = json.JSONDecoder()
_INDEX = re.compile(r"\[[^\]]*\]")


def job_faults(child: ChildJob, causes: Iterable[Cause]) -> list[FieldError]:
    """Findings for every ReplicatedJob that the child stands for, each path and text once."""
    causes = tuple(causes)
    paths = {cause.field for cause in causes}
    findings: dict[tuple[Path, str], FieldError] = {}
    for cause in causes:
        if not child.has_items_on(parts_of(cause.field)):
            webhook_fault = REFUSED.at(child.path, what="Jobs", why=f"a mutating webhook makes {cause.field} invalid")
            findings[webhook_fault.path, webhook_fault.detail] = webhook_fault
        elif not _is_consequence(child, cause, paths):
            for error in islice(_job_fault(child, cause), MAX_FAULTS - len(findings)):
                # The API server checks the restart policy for a pod and then, more strictly, for a Job.
                key = RESTART_POLICY.id if error.rule is RESTART_POLICY else error.verbatim
                findings[error.path, key] = error
        if len(findings) >= MAX_FAULTS:
            break
    return list(findings.values())


def _is_consequence(child: ChildJob, cause: Cause, paths: set[str]) -> bool:
    """Whether the cause only follows from another fault: of the selector, or of a refused volume."""
    if cause.message.endswith("`selector` does not match template `labels`"):
        return "spec.selector" in paths
    return cause.message.startswith("Not found: ") and _first_quoted(cause.message) in _volume_names(child)


def _job_fault(child: ChildJob, cause: Cause) -> Iterator[FieldError]:
    kind = _TYPES.get(cause.reason, ErrorType.INVALID)
    rule, fix = _rule_and_fix(child, cause)
    message = _without_value(cause.message)
    value = _first_quoted(cause.message)
    for path in child.jobset_paths(_with_index(child.body, parts_of(cause.field), value), value):
        yield FieldError(path, kind, dig(child.raw, *path.parts), "", fix, rule, message)


def _without_value(message: str) -> str:
    """The API server's message without the offending value if it is a list or an object: the path is enough."""
    kind, _, value_text = message.partition(": ")
    if not value_text.startswith(("{", "[")):
        return message
    try:
        _, end = _JSON.raw_decode(value_text)
    except ValueError:
        return message
    return kind + value_text[end:]


def _with_index(body: JSON, parts: Parts, value: str) -> Parts:
    """The path with the index of the item that has the offending value: the API server leaves it out of some paths.

    If no item has the value, the path of the list.
    """
    for depth, part in enumerate(parts):
        node = dig(body, *parts[:depth])
        if isinstance(node, list) and isinstance(part, str):
            indices = (i for i, item in enumerate(node) if dig(item, *parts[depth:]) == value)
            return next(((*parts[:depth], i, *parts[depth:]) for i in indices), parts[:depth])
    return parts


def _rule_and_fix(child: ChildJob, cause: Cause) -> tuple[Rule, str | Callable[[], str]]:
    field = _INDEX.sub("", cause.field)
    for common_fault in _COMMON_FAULTS:
        if common_fault.path_pattern.search(field) and common_fault.message_pattern.search(cause.message):
            hint = common_fault.hint and partial(common_fault.hint, child, cause.message)
            return common_fault.rule, hint or common_fault.rule.fix
    return JOB, JOB.fix


def decode_faults(child: ChildJob, problem: DecodeProblem) -> list[FieldError]:
    """Findings about a Job that the API server cannot decode, with the path of the template if none is known."""
    fix = _type_hint(problem.go_type)
    locations: tuple[Parts, ...] = problem.paths or ((),)
    paths = (path for parts in locations for path in child.jobset_paths(parts, ""))
    return [TYPE.at(path, dig(child.raw, *path.parts), why=problem.reason, fix=fix) for path in paths]


def _type_hint(go_type: str) -> str:
    """How to write a value of a Go type, which may be unknown ("")."""
    if go_type == "string":
        return "put it in quotes"
    if go_type == "bool":
        return "write true or false, without quotes"
    if go_type == "resource.Quantity":
        return "write an amount such as 500m, 2 or 1Gi"
    if go_type.startswith(("int", "uint")):
        return f"write a whole number that fits into {go_type}, without quotes"
    if go_type.startswith("[]"):
        return "write a list"
    return "write an object" if go_type else "`kubectl explain job.spec --recursive` shows the shape"


def service_faults(raw: JSON, js: JobSet, causes: Iterable[Cause]) -> list[FieldError]:
    """Findings about the headless Service, whose name and selector come from the subdomain or the JobSet's name."""
    paths = {"metadata.name": service_name_path(js), "spec.selector": NAME_PATH}
    findings = []
    for cause in causes:
        path = paths.get(cause.field, SPEC.at("network"))
        kind = _TYPES.get(cause.reason, ErrorType.INVALID)
        fix = SERVICE.fix if path == NAME_PATH else ""
        findings.append(FieldError(path, kind, dig(raw, *path.parts), "", fix, SERVICE, _without_value(cause.message)))
    return findings


def claim_template_faults(claim: Claim, causes: Iterable[Cause]) -> list[FieldError]:
    """Findings about the template of a volume claim that would be created."""
    findings = []
    for cause in causes:
        parts = parts_of(cause.field)
        if parts == ("spec", "resources", "storage"):
            parts = ("spec", "resources", "requests", "storage")
        path = claim.path.at(*parts)
        kind = _TYPES.get(cause.reason, ErrorType.INVALID)
        findings.append(
            FieldError(path, kind, dig(claim.template, *parts), "", CLAIM.fix, CLAIM, _without_value(cause.message))
        )
    return findings
