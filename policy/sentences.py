"""The messages of rules of policies: their ids, and the pages that explain them. Pure."""

from kube.model.field import ErrorType, Rule, Severity


def source(page: str) -> str:
    """The page of a rule."""
    return f"docs/policy/{page}.md"


def kebab(name: str) -> str:
    """`maxTotals` in ids and names of pages: `max-totals`."""
    text = "".join(f"-{char.lower()}" if char.isupper() else char for char in name)
    return text.replace("d-n-s", "dns")


def sentence(name: str, kind: ErrorType, message: str, fix: str, suffix: str = "") -> Rule:
    page = kebab(name)
    return Rule(f"policy-{page}{suffix and '-'}{suffix}", kind, message, fix, source(page))


def invalid(name: str, kind: ErrorType, message: str, fix: str) -> Rule:
    """The message about a fault of a policy itself."""
    return Rule(f"policy-invalid-{name}", kind, message, fix, source("README"))


def caution(name: str, message: str, fix: str, page: str) -> Rule:
    """A warning about a policy without faults whose effect is hardly intended."""
    return Rule(f"policy-{name}", ErrorType.INVALID, message, fix, source(page), severity=Severity.WARNING)
