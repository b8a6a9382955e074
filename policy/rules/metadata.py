"""Rules of policies about labels and annotations of the JobSet. Pure."""

from collections.abc import Iterator

from kube.model.field import ErrorType, FieldError
from kube.model.patterns import compiled
from policy.judged import METADATA, Judged, Namespace
from policy.rule_types import RequiredPair, RequiredQueue
from policy.rules.words import PolicyRule, declared, one_of

NO_QUEUE = declared(
    "requiredQueue", ErrorType.REQUIRED, "no queue is named", "name a queue by the label {labels}", "missing"
)
QUEUE = declared("requiredQueue", ErrorType.NOT_SUPPORTED, "this queue is not allowed", "{allowed}")


def required_queue(rule: RequiredQueue, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """A JobSet has to name a queue by one of certain labels, so that a queueing system such as Kueue admits it.

    `allowed` limits the queues that may be named; it holds for each of the labels that is there.
    """
    labels, path = judged.js.metadata.labels, METADATA.at("labels")
    named = [key for key in rule.labels if labels.get(key)]
    if not named and rule.labels:
        yield NO_QUEUE.at(path.at(rule.labels[0]), labels=lambda: " or ".join(rule.labels))
    for key in named:
        yield from one_of(QUEUE, path.at(key), labels[key], rule.allowed)


NO_LABEL = declared("requiredLabels", ErrorType.REQUIRED, "", "add the label {key}{form}", "missing")
LABEL = declared(
    "requiredLabels", ErrorType.INVALID, "must match '{pattern}'", "write a value that matches the whole pattern"
)
NO_ANNOTATION = declared("requiredAnnotations", ErrorType.REQUIRED, "", "add the annotation {key}{form}", "missing")
ANNOTATION = declared(
    "requiredAnnotations", ErrorType.INVALID, "must match '{pattern}'", "write a value that matches the whole pattern"
)


def required_labels(rule: tuple[RequiredPair, ...], judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """A JobSet has to have certain labels, such as a cost centre.

    With a `pattern` the whole value has to match it. Patterns are RE2, as in failure policies.
    """
    for pair in rule:
        value, path = judged.js.metadata.labels.get(pair.key), METADATA.at("labels", pair.key)
        if value is None:
            yield NO_LABEL.at(path, key=pair.key, form=_form(pair))
        elif not fits(pair.pattern, value):
            yield LABEL.at(path, value, pattern=pair.pattern)


def required_annotations(rule: tuple[RequiredPair, ...], judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """A JobSet has to have certain annotations, such as the address of its owner.

    With a `pattern` the whole value has to match it. Patterns are RE2, as in failure policies.
    """
    for pair in rule:
        value, path = judged.js.metadata.annotations.get(pair.key), METADATA.at("annotations", pair.key)
        if value is None:
            yield NO_ANNOTATION.at(path, key=pair.key, form=_form(pair))
        elif not fits(pair.pattern, value):
            yield ANNOTATION.at(path, value, pattern=pair.pattern)


def _form(pair: RequiredPair) -> str:
    return f" with a value that matches '{pair.pattern}'" if pair.pattern else ""


def fits(pattern: str, value: str) -> bool:
    """Whether the whole value matches; nothing matches a pattern that is none."""
    if not pattern:
        return True
    found = compiled(pattern)
    return not isinstance(found, str) and found.fullmatch(value) is not None


_LABELS, _ANNOTATIONS = ("metadata.labels{}",), ("metadata.annotations{}",)

RULES = (
    PolicyRule("requiredQueue", (NO_QUEUE, QUEUE), required_queue, reads=_LABELS),
    PolicyRule("requiredLabels", (NO_LABEL, LABEL), required_labels, reads=_LABELS),
    PolicyRule("requiredAnnotations", (NO_ANNOTATION, ANNOTATION), required_annotations, reads=_ANNOTATIONS),
)
