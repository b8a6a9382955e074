"""Names fields that the API server does not know, such as those in templates, which have no model here."""

import re
from collections.abc import Iterator

from jobset_client.errors import ApiError, InvalidError
from jobset_client.models import FIELDS
from jobset_client.words import as_json, cut_list, in_lines, nearest

_STRICT = "strict decoding error: "
"""The beginning of the API server's answer, after the name of the version."""
_UNKNOWN = re.compile(r'unknown field "((?:[^"\\]|\\.)*)"')


def name_fields(error: ApiError, task: str) -> ApiError:
    """An `InvalidError` that names each unknown field and the one that was likely meant; other errors as they are.

    `task`: the request, such as `create JobSet team-a/train`.
    """
    _, strict, found = str(error).partition(_STRICT)
    causes = tuple(_causes(found)) if strict else ()
    if not causes:
        return error
    return InvalidError(
        in_lines(f"cannot {task}", cut_list(causes)), status=error.status, reason=error.reason, causes=causes
    )


def _causes(found: str) -> Iterator[str]:
    for path in _UNKNOWN.findall(found):
        name = path.rpartition(".")[2]
        if name in FIELDS:
            yield f"{path}: there is no field {as_json(name)} here, but in another part: move it"
        else:
            close = nearest(name, FIELDS)
            yield f"{path}: unknown field {as_json(name)}; " + (
                f"did you mean {as_json(close)}?" if close else "remove it"
            )
