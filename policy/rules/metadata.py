"""Rules of policies about labels and annotations of the JobSet. Pure."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from api.keys import QUEUE_NAME
from kube.model.field import ErrorType, FieldError, Path, Rule
from kube.model.meta import Base, doc
from kube.model.patterns import compile_pattern
from policy.cel import Cel, Root, Writer, concat_lists, key_path, list_if, quote_text, text, texts
from policy.fields import MAX_PATTERN, Key, Word, list_of, map_by
from policy.judged import METADATA, JudgedJobSet, Namespace
from policy.rule import PolicyRule, check_allowed, findings_only, not_allowed
from policy.sentences import invalid, sentence


class RequiredQueue(Base, frozen=True, kw_only=True):
    """Which queue label a JobSet must have."""

    labels: Annotated[
        tuple[Key, ...],
        list_of(f"Keys of labels that name a queue. One of them has to be there. Default [{QUEUE_NAME}] (CRD).",
              default=[QUEUE_NAME]),
    ] = (QUEUE_NAME,)  # fmt: skip
    allowed: Annotated[tuple[Word, ...] | None, list_of("Queues that may be named. Absent: all.")] = None


NO_QUEUE = sentence(
    "requiredQueue", ErrorType.REQUIRED, "no queue is named", "name a queue by the label {labels}", "missing"
)
QUEUE = sentence("requiredQueue", ErrorType.NOT_SUPPORTED, "this queue is not allowed", "{allowed}")


def find_required_queue(rule: RequiredQueue, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """A JobSet has to name a queue by one of certain labels, so that a queueing system such as Kueue admits it.

    `allowed` limits the queues that may be named. The limit holds for each of these labels that the JobSet has.
    """
    labels, path = judged.js.metadata.labels, METADATA.at("labels")
    present_labels = [key for key in rule.labels if labels.get(key)]
    if not present_labels and rule.labels:
        yield NO_QUEUE.at(path.at(rule.labels[0]), labels=lambda: " or ".join(rule.labels))
    for key in present_labels:
        yield from check_allowed(QUEUE, path.at(key), labels[key], rule.allowed)


@findings_only
def compile_required_queue(rule: RequiredQueue, writer: Writer, root: Root) -> Cel:
    keys = texts(rule.labels)
    first = text(str(METADATA.at("labels", str(rule.labels[0]))))
    missing = writer.at(NO_QUEUE, first, labels=" or ".join(rule.labels))
    labels = root.variable("labels")
    is_present = f"{labels}[?k].orValue('') != ''"
    no_queue = list_if(f"!{keys}.exists(k, {is_present})", missing)
    if rule.allowed is None:
        return no_queue
    path = key_path("metadata.labels", "k")
    other_queue = not_allowed(QUEUE, (path, path), f"string({labels}[k])", rule.allowed, writer)
    return concat_lists(
        no_queue,
        Cel(f"{keys}.filter(k, {is_present} && !({labels}[k] in {texts(rule.allowed)})).map(k, {other_queue})"),
    )


PATTERN = invalid("pattern", ErrorType.INVALID, "not an RE2 pattern: {why}", "correct it")


class RequiredPair(Base, frozen=True, kw_only=True):
    """A label or annotation that a JobSet must have."""

    key: Annotated[str, doc("The key.", maxLength=317)]
    pattern: Annotated[
        str, doc("An RE2 pattern that the whole value has to match. Absent: any value.", maxLength=MAX_PATTERN)
    ] = ""

    def faults(self, path: Path) -> Iterator[FieldError]:
        """The fault that the pattern cannot be parsed."""
        if self.pattern and isinstance(reason := compile_pattern(self.pattern), str):
            yield PATTERN.at(path.at("pattern"), self.pattern, why=reason)


NO_LABEL = sentence("requiredLabels", ErrorType.REQUIRED, "", "add the label {key}{form}", "missing")
LABEL = sentence(
    "requiredLabels", ErrorType.INVALID, "must match '{pattern}'", "write a value that matches the whole pattern"
)
NO_ANNOTATION = sentence("requiredAnnotations", ErrorType.REQUIRED, "", "add the annotation {key}{form}", "missing")
ANNOTATION = sentence(
    "requiredAnnotations", ErrorType.INVALID, "must match '{pattern}'", "write a value that matches the whole pattern"
)


def _form(pair: RequiredPair) -> str:
    """The end of a message: the form that the value has to have."""
    return f" with a value that matches '{pair.pattern!s}'" if pair.pattern else ""


def matches_whole(pattern: str, value: str) -> bool:
    """Whether the whole value matches the pattern. No value matches an invalid pattern."""
    if not pattern:
        return True
    compiled = compile_pattern(pattern)
    return not isinstance(compiled, str) and compiled.fullmatch(value) is not None


_PATTERN_PARAGRAPH = """

With a `pattern` the whole value has to match it. Patterns are RE2, as in failure policies.
"""


def _pairs_rule(name: str, field: str, missing: Rule, wrong: Rule, summary: str) -> PolicyRule:
    """The rule `name` about labels or annotations (`field`). `summary`: the first paragraph of its page."""

    def find(pairs: tuple[RequiredPair, ...], judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
        values: Mapping[str, str] = getattr(judged.js.metadata, field)
        for pair in pairs:
            value, path = values.get(pair.key), METADATA.at(field, pair.key)
            if value is None:
                yield missing.at(path, key=pair.key, form=_form(pair))
            elif not matches_whole(pair.pattern, value):
                yield wrong.at(path, value, pattern=pair.pattern)

    @findings_only
    def compile_pairs(pairs: tuple[RequiredPair, ...], writer: Writer, root: Root) -> Cel:
        return concat_lists(*(_compile_pair(pair, field, missing, wrong, writer, root) for pair in pairs))

    find.__doc__ = summary + _PATTERN_PARAGRAPH
    return PolicyRule(name, (missing, wrong), find, compile_pairs, reads=(f"metadata.{field}{{}}",))


def _compile_pair(pair: RequiredPair, field: str, missing: Rule, wrong: Rule, writer: Writer, root: Root) -> Cel:
    """An expression for the findings about one label or annotation."""
    at, key, values = text(str(METADATA.at(field, str(pair.key)))), text(pair.key), root.variable(field)
    absent = list_if(f"!({key} in {values})", writer.at(missing, at, key=pair.key, form=_form(pair)))
    if not pair.pattern:
        return absent
    whole_pattern, value = text(f"^(?:{pair.pattern!s})$"), quote_text(Cel(f"string({values}[{key}])"))
    unfit = writer.at(wrong, at, quoted=value, pattern=pair.pattern)
    return concat_lists(
        absent, list_if(f"{key} in {values} && !string({values}[{key}]).matches({whole_pattern})", unfit)
    )


RequiredQueueRule = Annotated[
    RequiredQueue | None,
    doc("A label that names a queue."),
    PolicyRule(
        "requiredQueue", (NO_QUEUE, QUEUE), find_required_queue, compile_required_queue, reads=("metadata.labels{}",)
    ),
]
RequiredLabelsRule = Annotated[
    tuple[RequiredPair, ...] | None,
    map_by("key", "Labels of the JobSet."),
    _pairs_rule(
        "requiredLabels", "labels", NO_LABEL, LABEL, "A JobSet has to have certain labels, such as a cost centre."
    ),
]
RequiredAnnotationsRule = Annotated[
    tuple[RequiredPair, ...] | None,
    map_by("key", "Annotations of the JobSet."),
    _pairs_rule(
        "requiredAnnotations",
        "annotations",
        NO_ANNOTATION,
        ANNOTATION,
        "A JobSet has to have certain annotations, such as the address of its owner.",
    ),
]
