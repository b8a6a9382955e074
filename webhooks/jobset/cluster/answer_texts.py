"""Parses the API server's refusals of JobSets and its warnings: who refuses, the faults, their paths. Pure."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kube.errors import ApiError
from kube.model.field import NAME_PATH, Parts, Path

_NO_RIGHT = re.compile(r'(\S+ ("[^"]*" )?is forbidden: )?User ')
"""The beginning of a refusal by the API server's authorizer, which names the object if it exists."""
_OUR_WEBHOOK = re.compile(r'admission webhook "[mv]jobset\.kb\.io" denied the request: ')
_ADMISSION = re.compile(r'admission webhook "[^"]+" denied|ValidatingAdmissionPolicy ')
_OUR_POLICY = re.compile(
    r"ValidatingAdmissionPolicy 'jobset-policy-[^']+' with binding '[^']+' denied request: (.*)", re.DOTALL
)
_PATH = r"(?:spec|metadata)[.\[][^\s:]*"
_FINDING_SEPARATOR = re.compile(rf", (?={_PATH}: [A-Z]|and \d+ more$)")
"""The separator between two findings in the message of a compiled policy."""
_COUNT_OF_MORE = re.compile(r"and \d+ more")
_WITH_PATH = re.compile(rf"({_PATH}): (.*)", re.DOTALL)


class StatedFault(NamedTuple):
    """A fault in a refusal. `is_ours`: our webhook or our policies found it, and the text contains the fix."""

    path: Path
    text: str
    is_ours: bool


def lacks_right(message: str) -> bool:
    """Whether a request was refused because the user lacks a right."""
    return _NO_RIGHT.match(message) is not None


def is_by_our_webhook(message: str) -> bool:
    return _OUR_WEBHOOK.search(message) is not None


def is_by_admission(message: str) -> bool:
    """Whether a webhook or a policy refuses, and not the API server itself."""
    return _ADMISSION.search(message) is not None


def is_count_of_more(text: str) -> bool:
    """Whether a text stands for the faults that did not fit into an answer."""
    return _COUNT_OF_MORE.fullmatch(text) is not None


def stated_faults(error: ApiError) -> Iterator[StatedFault]:
    """The faults that a refusal of a JobSet names."""
    is_ours = is_by_our_webhook(error.message)
    for cause in error.causes:
        if cause.field:
            yield StatedFault(Path(parts_of(cause.field)), cause.message, is_ours)
        elif denied := _OUR_POLICY.search(cause.message):
            for text in _FINDING_SEPARATOR.split(denied[1].removeprefix("[").removesuffix("]")):
                path, complaint = path_and_text(text)
                yield StatedFault(path or NAME_PATH, complaint, is_ours=True)


def path_and_text(text: str) -> tuple[Path | None, str]:
    """The path at the beginning of a text, and the rest of the text; no path if there is none, or it is cut."""
    with_path = _WITH_PATH.fullmatch(text)
    return (Path(parts_of(with_path[1])), with_path[2]) if with_path and "..." not in with_path[1] else (None, text)


def parts_of(field: str) -> Parts:
    """Parts of a path as the API server writes it: `spec.containers[0].limits[nvidia.com/gpu]`."""
    keys_and_names = re.findall(r"\[([^\]]*)\]|([^.\[\]]+)", field)
    return tuple(int(key) if key.isdigit() else key or name for key, name in keys_and_names)
