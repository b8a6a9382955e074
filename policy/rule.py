"""The declaration of a rule of policies: its messages, its functions, and the fields that it reads. Pure.

The first argument of the functions is what a policy demands: the value of the rule's field in `spec.rules`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kube.model.field import FieldError, Path, Rule, quote
from kube.model.suggest import did_you_mean
from policy.cel import Cel, CelPath, Expression, Root, Writer, cel_path, list_if, quote_text, texts
from policy.judged import JudgedJobSet, Namespace
from policy.limits import CelNumbers, Number, check_limit

Find = Callable[[Any, JudgedJobSet, Namespace], Iterator[FieldError]]
Numbers = Callable[[Any, JudgedJobSet, Namespace], Iterator[Number]]
NO_FINDINGS = Cel("[]")


@dataclass(frozen=True, slots=True)
class Compiled:
    """One rule of a policy in CEL: findings about a JobSet, and numbers of the JobSet that have limits.

    `variables`: variables that only this rule reads, with their names. A variable may read earlier variables.
    """

    findings: Expression = lambda _: NO_FINDINGS
    numbers: tuple[CelNumbers, ...] = ()
    variables: tuple[tuple[str, Expression], ...] = ()


Compile = Callable[[Any, Writer], Compiled]
Cautions = Callable[[Any, Path], Iterator[FieldError]]


def findings_only(write: Callable[[Any, Writer, Root], Cel]) -> Compile:
    """The function `compile` of a rule without numbers. `write` writes the findings about the JobSet in `root`."""
    return lambda rule, writer: Compiled(lambda root: write(rule, writer, root))


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule of policies.

    - `name`: its name in a policy. `messages`: the messages of its findings.
    - `find`: finds violations. Its docstring is the page of the rule in docs/policy.
    - `compile`: writes the rule in CEL.
    - `numbers`: the numbers of a JobSet that the rule compares with limits.
    - `reads`: the fields that the rule judges, as paths of the schema. `[]` is each item of a list, `{}` each member of
      a map. A test checks that every field of a JobSet is read by a rule, or exempted with a reason.
    - `note`: in which cases the API server refuses more than `find` does.
    - `cautions`: finds warnings about a policy whose effect is probably not intended.
    """

    name: str
    messages: tuple[Rule, ...]
    find: Find
    compile: Compile
    numbers: Numbers | None = None
    reads: tuple[str, ...] = ()
    note: str = ""
    cautions: Cautions = lambda _, __: iter(())

    @property
    def fit(self) -> str:
        """Whether the API server gives the same verdict as `find`, in words."""
        return "approximate: may refuse more" if self.note else "exact"


_JOB = "spec.replicatedJobs[].template.spec."


def job_fields(*fields: str) -> tuple[str, ...]:
    """Paths of fields in the spec of Jobs, in the form of `PolicyRule.reads`."""
    return tuple(_JOB + field for field in fields)


def pod_fields(*fields: str) -> tuple[str, ...]:
    """Paths of fields in the spec of pods, in the form of `PolicyRule.reads`."""
    return job_fields(*(f"template.spec.{field}" for field in fields))


def container_fields(*fields: str) -> tuple[str, ...]:
    """Paths of fields of containers and init containers, in the form of `PolicyRule.reads`."""
    return pod_fields(*(f"{kind}[].{field}" for field in fields for kind in ("containers", "initContainers")))


def limit_rule(
    name: str, exceeded: Rule, numbers: Numbers, compile_rule: Compile, reads: tuple[str, ...]
) -> PolicyRule:
    """A rule that only compares numbers with limits. `exceeded`: its message. Its page: the docstring of `numbers`."""

    def find(rule: Any, judged: JudgedJobSet, namespace: Namespace) -> Iterator[FieldError]:
        for number in numbers(rule, judged, namespace):
            yield from check_limit(number, exceeded)

    find.__doc__ = numbers.__doc__
    return PolicyRule(name, (exceeded,), find, compile_rule, numbers, reads)


def check_allowed(rule: Rule, path: Path, value: str, allowed: tuple[str, ...] | None) -> Iterator[FieldError]:
    """The finding that a value is not in `allowed`, if it is not. If `allowed` is None, all values are allowed."""
    if allowed is not None and value not in allowed:
        yield rule.at(path, value, value=value, allowed=lambda: did_you_mean(value, allowed, intro="allowed are"))


def list_allowed(names: Sequence[str]) -> str:
    """The end of a message that lists the allowed values."""
    return f"allowed are: {', '.join(map(quote, names))}"


def not_allowed(rule: Rule, at: CelPath, value: str, allowed: Sequence[str], writer: Writer) -> Cel:
    """An expression for the finding that a value is not in `allowed`. `value`: CEL of the text of the value."""
    return writer.at(rule, *at, quoted=quote_text(Cel(value)), allowed=list_allowed(allowed))


def compile_allowed(rule: Rule, path: Path, value: str, allowed: tuple[str, ...], writer: Writer) -> Cel:
    """An expression for a list with a finding if a value is set and not allowed. `value`: CEL of an optional text."""
    finding = not_allowed(rule, cel_path(str(path)), f"string({value}.orValue(''))", allowed, writer)
    return list_if(f"{value}.hasValue() && !({value}.orValue('') in {texts(allowed)})", finding)
