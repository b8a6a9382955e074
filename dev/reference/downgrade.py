"""Make the table of docs/downgrade.md about the fields and annotations that the Go JobSet drops or does not read."""

from api.rollback import DROPPED_FIELDS, UNREAD_ANNOTATIONS
from dev.hack.generated import beginning


def page() -> str:
    fields = {".".join(path).replace(".*", "[]"): field for path, field in DROPPED_FIELDS.items()}
    rows = [
        f"| `{name}` | {unknown.effect_of_loss} | {unknown.remedy} |"
        for name, unknown in {**fields, **UNREAD_ANNOTATIONS}.items()
    ]
    head = ["| Field or annotation | Under the Go JobSet | What to do before |", "|---|---|---|"]
    return "\n".join([beginning("downgrade.md"), "", *head, *rows]) + "\n"
