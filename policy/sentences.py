"""Makes the messages of policies, with their ids and the pages that explain them. Pure."""

from kube.model.field import ErrorType, Rule, Severity


def source(page: str) -> str:
    """The path of a page about policies."""
    return f"docs/policy/{page}.md"


def kebab(name: str) -> str:
    """The name of a field in the form of ids and pages, such as `max-totals` for maxTotals."""
    text = "".join(f"-{char.lower()}" if char.isupper() else char for char in name)
    return text.replace("d-n-s", "dns")


def sentence(name: str, kind: ErrorType, message: str, fix: str, suffix: str = "") -> Rule:
    """The message of the rule `name` of policies. `suffix` distinguishes the ids of several messages of one rule."""
    page = kebab(name)
    return Rule(f"policy-{page}{suffix and '-'}{suffix}", kind, message, fix, source(page))


def invalid(name: str, kind: ErrorType, message: str, fix: str) -> Rule:
    """The message about a fault in a policy."""
    return Rule(f"policy-invalid-{name}", kind, message, fix, source("README"))


def caution(name: str, message: str, fix: str, page: str) -> Rule:
    """The message of a warning about a policy without faults whose effect is probably not intended."""
    return Rule(f"policy-{name}", ErrorType.INVALID, message, fix, source(page), severity=Severity.WARNING)
