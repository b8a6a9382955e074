"""Prints a rule, or the ids of all."""

from dataclasses import dataclass
from typing import TextIO

from authoring.rule_catalogue import all_rules
from cli.rule.text import rule_lines
from kube.model.suggest import nearest


@dataclass(frozen=True, slots=True)
class Options:
    """`id`: of the rule; empty for all."""

    id: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write to `out`, or to `err` that there is no such rule; gives the exit code."""
    by_id = {rule.id: rule for rule in all_rules()}
    if not options.id:
        out.writelines(f"{rule.id:40} {rule.severity.value}\n" for _, rule in sorted(by_id.items()))
        return 0
    rule = by_id.get(options.id)
    if rule is None:
        close = nearest(options.id, (name for name in by_id if name[:1] == options.id[:1]))
        hint = f"did you mean {close}?" if close else "`jobset rule` lists all"
        err.write(f"jobset rule: there is no rule {options.id!r}; {hint}\n")
        return 2
    out.writelines(f"{line}\n" for line in rule_lines(rule))
    return 0
