"""Faults of the children: converts answers of the API server into findings about the JobSet. Pure.

The API server's messages are kept; the path in the JobSet is added, and the fix for common faults.
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
from kube.model.field import SPEC, ErrorType, FieldError, Layer, Path, Rule
from kube.model.jsontree import dig
from kube.model.meta import JSON
from kube.model.quantity import parse_quantity
from kube.model.suggest import did_you_mean, nearest
from kube.model.validation import as_label
from webhooks.jobset.cluster.answer_texts import parts_of
from webhooks.jobset.cluster.children import JOBSET_NAME, ChildJob, claim_names, service_name_path
from webhooks.jobset.cluster.claims import Claim
from webhooks.jobset.cluster.decode import Parts, Unreadable
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
class _Mistake:
    """A common fault: how to recognise it by path (without indices) and message, and its fix."""

    rule: Rule
    field: re.Pattern[str]
    words: re.Pattern[str]
    names: Callable[[ChildJob, str], str] | None = None


def _mistake(rule: Rule, field: str, words: str, names: Callable[[ChildJob, str], str] | None = None) -> _Mistake:
    return _Mistake(rule, re.compile(field), re.compile(words), names)


_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def _volumes(child: ChildJob) -> list[str]:
    return [volume.get("name") or "" for volume in child.pod_spec.get("volumes") or ()]


def _a_volume(child: ChildJob, message: str) -> str:
    names = dict.fromkeys([*_volumes(child), *claim_names(child.js)])
    guess = did_you_mean(_first_quoted(message), names, intro="volumes are")
    return guess or "add a volume of this name to the pod, or a template to volumeClaimPolicies"


def _a_container(child: ChildJob, message: str) -> str:
    spec = child.pod_spec
    names = [each.get("name") or "" for key in ("containers", "initContainers") for each in spec.get(key) or ()]
    return did_you_mean(_first_quoted(message), names, intro="containers are")


def _a_supported(_: ChildJob, message: str) -> str:
    word, supported = message.split("supported values: ", 1)
    close = nearest(_first_quoted(word), _QUOTED.findall(supported))
    return f'did you mean "{close}"?' if close else ""


def _a_label(_: ChildJob, message: str) -> str:
    example = as_label(_first_quoted(message))
    return "use lower case letters, digits and '-'" + (f', such as "{example}"' if example else "")


def _whole(_: ChildJob, message: str) -> str:
    """The whole number of devices to write instead of a fraction."""
    amount = parse_quantity(_first_quoted(message))
    return DEVICES.fix.format(guess=1 if amount is None else math.ceil(amount))


def _first_quoted(text: str) -> str:
    found = _QUOTED.search(text)
    return found[1] if found else ""


_ANY = ""
_MISTAKES: tuple[_Mistake, ...] = (
    _mistake(RESTART_NEVER, r"template\.spec\.restartPolicy$", r"podFailurePolicy"),
    _mistake(RESTART_POLICY, r"template\.spec\.restartPolicy$", r"^(Required|Unsupported) value"),
    _mistake(IMAGE, r"\.(containers|initContainers)\.image$", r"^Required value"),
    _mistake(CONTAINERS, r"\.containers$", r"^Required value"),
    _mistake(REQUESTS, r"\.resources\.requests", r"less than or equal to .* limit"),
    _mistake(LIMITS, r"\.resources\.limits", r"[Ll]imit must be set"),
    _mistake(DEVICES, r"\.resources\.(requests|limits)", r": must be an integer$", _whole),
    _mistake(RESOURCE_NAME, r"\.resources\.", r"must be a standard resource"),
    _mistake(DUPLICATE, r"\.name$", r"^Duplicate value"),
    _mistake(VOLUME_MOUNT, r"\.volumeMounts\.name$", r"^Not found", _a_volume),
    _mistake(MOUNT_PATH, r"\.volumeMounts\.mountPath$", r"must be unique"),
    _mistake(VOLUME_SOURCE, r"\.volumes\.", r"more than 1 volume type"),
    _mistake(VALUE_FROM, r"\.env\.valueFrom", r"may not be specified when"),
    _mistake(ENV_NAME, r"\.env\.name$", r"environment variable name"),
    _mistake(LABEL, r"\.(containers|initContainers|volumes)\.name$", r"RFC 1123 label", _a_label),
    _mistake(ORDERED, r"\.onExitCodes\.values$", r"must be ordered"),
    _mistake(PROBE, r"(Probe|lifecycle\.\w+)$", r"handler type"),
    _mistake(NEGATIVE, _ANY, r"must be greater than or equal to 0"),
    _mistake(COMPLETIONS, r"^spec\.completions$", r"^Required value"),
    _mistake(SELECTOR, r"^spec\.selector", r"not auto-generated"),
    _mistake(OWN_LABEL, r"^spec\.template\.(metadata\.)?labels", r": must be '"),
    _mistake(FAILURE_CONTAINER, r"\.onExitCodes\.containerName$", r"must be one of the container", _a_container),
    _mistake(UNSUPPORTED, _ANY, r"^Unsupported value: .*supported values: ", _a_supported),
)
MAX_FAULTS = 500
"""Findings about one child: its faults count for each ReplicatedJob that it stands for."""
_TYPES = {kind.value: kind for kind in ErrorType}
_JSON = json.JSONDecoder()
_INDEX = re.compile(r"\[[^\]]*\]")


def job_faults(child: ChildJob, causes: Iterable[Cause]) -> list[FieldError]:
    """Findings for every ReplicatedJob that the child stands for, each path and text once."""
    causes = tuple(causes)
    paths = {cause.field for cause in causes}
    found: dict[tuple[Path, str], FieldError] = {}
    for cause in causes:
        if not child.has(parts_of(cause.field)):
            foreign = REFUSED.at(child.path, what="Jobs", why=f"a mutating webhook makes {cause.field} invalid")
            found[foreign.path, foreign.detail] = foreign
        elif not _follows(child, cause, paths):
            for error in islice(_job_fault(child, cause), MAX_FAULTS - len(found)):
                # The restart policy is checked for a pod and for a Job: the later check is the stricter one.
                key = RESTART_POLICY.id if error.rule is RESTART_POLICY else error.verbatim
                found[error.path, key] = error
        if len(found) >= MAX_FAULTS:
            break
    return list(found.values())


def _follows(child: ChildJob, cause: Cause, paths: set[str]) -> bool:
    """Whether this is only a consequence of another fault: of a selector, or of a refused volume."""
    if cause.message.endswith("`selector` does not match template `labels`"):
        return "spec.selector" in paths
    return cause.message.startswith("Not found: ") and _first_quoted(cause.message) in _volumes(child)


def _job_fault(child: ChildJob, cause: Cause) -> Iterator[FieldError]:
    kind = _TYPES.get(cause.reason, ErrorType.INVALID)
    rule, fix = _fix_for(child, cause)
    words = _without_object(cause.message)
    value = _first_quoted(cause.message)
    for path in child.paths(_with_index(child.body, parts_of(cause.field), value), value):
        yield FieldError(path, kind, dig(child.raw, *path.parts), "", fix, rule, words)


def _without_object(words: str) -> str:
    """The API server's message without the list or object in it: the path is enough."""
    kind, _, value_text = words.partition(": ")
    if not value_text.startswith(("{", "[")):
        return words
    try:
        _, end = _JSON.raw_decode(value_text)
    except ValueError:
        return words
    return kind + value_text[end:]


def _with_index(body: JSON, parts: Parts, value: str) -> Parts:
    """The path with the index of the item with the offending value, which the API server leaves out of some paths.

    If no item has the value, it is the path of the list.
    """
    for depth, part in enumerate(parts):
        node = dig(body, *parts[:depth])
        if isinstance(node, list) and isinstance(part, str):
            found = (i for i, item in enumerate(node) if dig(item, *parts[depth:]) == value)
            return next(((*parts[:depth], i, *parts[depth:]) for i in found), parts[:depth])
    return parts


def _fix_for(child: ChildJob, cause: Cause) -> tuple[Rule, str | Callable[[], str]]:
    field = _INDEX.sub("", cause.field)
    for mistake in _MISTAKES:
        if mistake.field.search(field) and mistake.words.search(cause.message):
            return mistake.rule, mistake.rule.fix if mistake.names is None else partial(
                mistake.names, child, cause.message
            )
    return JOB, JOB.fix


def decode_faults(child: ChildJob, problem: Unreadable) -> list[FieldError]:
    """Findings about a Job that the API server cannot decode; at the template if the path is unknown."""
    fix = _as_type(problem.wanted)
    locations: tuple[Parts, ...] = problem.paths or ((),)
    paths = (path for parts in locations for path in child.paths(parts, ""))
    return [TYPE.at(path, dig(child.raw, *path.parts), why=problem.why, fix=fix) for path in paths]


def _as_type(wanted: str) -> str:
    """How to write a value of a Go type."""
    if wanted == "string":
        return "put it in quotes"
    if wanted == "bool":
        return "write true or false, without quotes"
    if wanted == "resource.Quantity":
        return "write an amount such as 500m, 2 or 1Gi"
    if wanted.startswith(("int", "uint")):
        return f"write a whole number that fits into {wanted}, without quotes"
    if wanted.startswith("[]"):
        return "write a list"
    return "write an object" if wanted else "`kubectl explain job.spec --recursive` shows the shape"


def service_faults(raw: JSON, js: JobSet, causes: Iterable[Cause]) -> list[FieldError]:
    """Findings about the headless Service: its name is the subdomain or the JobSet's, which it selects by."""
    paths = {"metadata.name": service_name_path(js), "spec.selector": JOBSET_NAME}
    found = []
    for cause in causes:
        path = paths.get(cause.field, SPEC.at("network"))
        kind = _TYPES.get(cause.reason, ErrorType.INVALID)
        fix = SERVICE.fix if path == JOBSET_NAME else ""
        found.append(FieldError(path, kind, dig(raw, *path.parts), "", fix, SERVICE, _without_object(cause.message)))
    return found


def claim_template_faults(claim: Claim, causes: Iterable[Cause]) -> list[FieldError]:
    """Findings about a volume claim that is to be made from a template."""
    found = []
    for cause in causes:
        parts = parts_of(cause.field)
        if parts == ("spec", "resources", "storage"):
            parts = ("spec", "resources", "requests", "storage")
        path = claim.path.at(*parts)
        kind = _TYPES.get(cause.reason, ErrorType.INVALID)
        found.append(
            FieldError(path, kind, dig(claim.template, *parts), "", CLAIM.fix, CLAIM, _without_object(cause.message))
        )
    return found
