"""The end of docs/downgrade.md: the fields of the spec that the Go JobSet drops, what happens then, and what to do."""

from api.own_fields import OWN_FIELDS
from dev.hack.generated import beginning


def page() -> str:
    """The page as Markdown."""
    rows = [
        f"| `{'.'.join(path).replace('.*', '[]')}` | {field.happens} | {field.remedy} |"
        for path, field in OWN_FIELDS.items()
    ]
    head = ["| Field | Under the Go JobSet | What to do before |", "|---|---|---|"]
    return "\n".join([beginning("downgrade.md"), "", *head, *rows]) + "\n"
