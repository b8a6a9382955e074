"""Pod templates that the API server accepts and no kubelet can run. Warnings only. Pure.

See docs/reference/validation.md#containers.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from kube.model import images
from kube.model.field import FieldError, Path, quote, render_value
from kube.model.quantity import parse_quantity
from kube.model.suggest import nearest
from webhooks.jobset.command_lines import list_items
from webhooks.jobset.rules import MAX_FINDINGS, Source
from webhooks.jobset.subject import Entry, Subject
from webhooks.jobset.templates import Container

_MEDIA = ("Memory", "HugePages")
_HUGE_PAGES_PREFIX = "HugePages-"

_DOCS = Source("docs/reference/validation.md#containers")
IMAGE = _DOCS.warning("image-form", "no kubelet can pull this: {why}", "{guess}")
COMMAND = _DOCS.warning("command-one-word", "this names one program with blanks in its name", "write {items}")
MEDIUM = _DOCS.warning("empty-dir-medium", "no kubelet knows this medium: the pod never starts", "{guess}")


def check_containers(subject: Subject) -> Iterator[FieldError]:
    """Findings about images, commands and media that no kubelet can use, at most as many as an answer lists."""
    yield from islice((error for entry in subject.entries for error in _check_pod(entry)), MAX_FINDINGS)


def _check_pod(entry: Entry) -> Iterator[FieldError]:
    for path, container in entry.each_container():
        yield from _check_container(path, container)
    for path, volume in entry.each_volume():
        medium = volume.empty_dir.get("medium") if isinstance(volume.empty_dir, dict) else None
        if isinstance(medium, str) and not _is_medium(medium):
            yield MEDIUM.at(path.at("emptyDir", "medium"), medium, guess=partial(_medium_hint, medium))


def _check_container(path: Path, container: Container) -> Iterator[FieldError]:
    image = container.image
    if isinstance(image, str) and image and (reason := images.fault(image)):
        yield IMAGE.at(path.at("image"), image, why=reason, guess=partial(_image_hint, image))
    words = container.command
    if len(words) == 1 and _is_command_line(words[0]):
        yield COMMAND.at(path.at("command", 0), words[0], items=partial(_item_list, words[0]))


def _is_command_line(word: Any) -> bool:
    """Whether a command of one item is likely a whole command line: names of programs have no blanks."""
    return isinstance(word, str) and any(char.isspace() for char in word.strip())


def _item_list(line: str) -> str:
    """The list to write instead of a command line."""
    try:
        return f"[{', '.join(map(render_value, list_items('command', line)))}]"
    except ValueError:
        return "each word as an item, or sh, -c and the line"


def _image_hint(image: str) -> str:
    likely_image = images.likely_reference(image)
    if likely_image:
        return f"did you mean {quote(likely_image)}?"
    return "write HOST/PATH:TAG, such as docker.io/library/python:3.13"


def _is_medium(text: str) -> bool:
    return text in {"", *_MEDIA} or (
        text.startswith(_HUGE_PAGES_PREFIX) and parse_quantity(text.removeprefix(_HUGE_PAGES_PREFIX)) is not None
    )


def _medium_hint(text: str) -> str:
    medium = nearest(text, _MEDIA)
    return f"did you mean {quote(medium)}?" if medium else "write Memory, or leave it out for the node's disk"
