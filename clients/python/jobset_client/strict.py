"""Explains errors about fields that the API server does not know, such as fields in templates, which have no model."""

import re
from collections.abc import Iterator

from jobset_client.errors import ApiError, InvalidError
from jobset_client.models import FIELDS
from jobset_client.words import as_json, cut_list, in_lines, nearest

_FAULTS_PREFIX = "strict decoding error: "
"""Text in the API server's answer, between the name of the version and the faults."""
_UNKNOWN_FIELD = re.compile(r'unknown field "((?:[^"\\]|\\.)*)"')


def name_fields(error: ApiError, task: str) -> ApiError:
    """An `InvalidError` that names each unknown field and the field that was likely meant; any other error unchanged.

    `task`: the request, such as `create JobSet team-a/train`.
    """
    _, prefix, faults_text = str(error).partition(_FAULTS_PREFIX)
    causes = tuple(_field_causes(faults_text)) if prefix else ()
    if not causes:
        return error
    return InvalidError(
        in_lines(f"cannot {task}", cut_list(causes)), status=error.status, reason=error.reason, causes=causes
    )


def _field_causes(faults_text: str) -> Iterator[str]:
    for path in _UNKNOWN_FIELD.findall(faults_text):
        name = path.rpartition(".")[2]
        if name in FIELDS:
            yield f"{path}: there is no field {as_json(name)} here, but in another part: move it"
        else:
            similar_name = nearest(name, FIELDS)
            yield f"{path}: unknown field {as_json(name)}; " + (
                f"did you mean {as_json(similar_name)}?" if similar_name else "remove it"
            )
