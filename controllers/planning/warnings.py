"""How warnings name many objects."""

from collections.abc import Sequence

from controllers.planning.limits import Limits


def list_some(items: Sequence[str], advice: str, limits: Limits) -> str:
    """The first few, the number of the others, and what to do."""
    named = limits.named_objects
    more = f" and {len(items) - named} more" if len(items) > named else ""
    return f"{', '.join(items[:named])}{more}: {advice}"
