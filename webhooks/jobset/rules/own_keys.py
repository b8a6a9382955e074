"""Labels and annotations without effect: misspelled keys of JobSet, Kueue's label on a template. Warnings only. Pure.

See docs/reference/validation.md#labels-and-annotations.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from api.keys import OUR_KEYS, OUR_PREFIXES, QUEUE_NAME, SET_BY_USERS
from kube.model.field import FieldError, Path
from kube.model.suggest import nearest
from kube.model.validation import MAX_LABEL
from webhooks.jobset.rules import MAX_FINDINGS, Source
from webhooks.jobset.subject import Subject

MAX_KEY_LENGTH = max(map(len, OUR_PREFIXES)) + MAX_LABEL
"""The most characters of a valid key. Another rule refuses a longer key."""

UNKNOWN = Source("docs/reference/validation.md#labels-and-annotations").warning(
    "unknown-key",
    "no key of JobSet: it has no effect",
    "{guess}",
)
QUEUE = Source("docs/reference/validation.md#labels-and-annotations").warning(
    "queue-label-on-template",
    "Kueue queues a JobSet by this label of the JobSet, and does not see it here",
    "move it to metadata.labels of the JobSet",
)


def check_queue_label(subject: Subject) -> Iterator[FieldError]:
    """Findings about Kueue's queue label on templates of a JobSet without a queue label.

    Such a set runs without a quota, or never.
    """
    if QUEUE_NAME in subject.js.metadata.labels:
        return
    for entry in subject.entries[:MAX_FINDINGS]:
        for path, template in ((entry.path.at("template"), entry.template), (entry.pod_path, entry.job.template)):
            if (queue := template.metadata.labels.get(QUEUE_NAME)) is not None:
                yield QUEUE.at(path.at("metadata", "labels", QUEUE_NAME), queue)
                break


def check_unknown_keys(subject: Subject) -> Iterator[FieldError]:
    """Findings about unknown keys with a prefix of JobSet, on the set, on Job templates and on pod templates."""
    for path, key in islice(_unknown_keys(subject), MAX_FINDINGS):
        yield UNKNOWN.at(path.at(key), guess=partial(_suggestion, key))


def _unknown_keys(subject: Subject) -> Iterator[tuple[Path, str]]:
    """The path of the labels or annotations, and the key, of each unknown key with a prefix of JobSet."""
    meta = subject.js.metadata
    key_maps: list[tuple[Path, str, Iterable[str]]] = [
        (Path(("metadata",)), "annotations", meta.annotations),
        (Path(("metadata",)), "labels", meta.labels),
    ]
    for entry in subject.entries:
        for path, template in ((entry.path.at("template"), entry.template), (entry.pod_path, entry.job.template)):
            key_maps.append((path.at("metadata"), "annotations", template.metadata.annotations))
            key_maps.append((path.at("metadata"), "labels", template.metadata.labels))
    for path, field, keys in key_maps:
        for key in keys:
            if key.startswith(OUR_PREFIXES) and key not in OUR_KEYS and len(key) <= MAX_KEY_LENGTH:
                yield path.at(field), key


def _suggestion(key: str) -> str:
    """A fix for an unknown key: the known key with the most similar name, whatever their prefixes."""
    name = key.rpartition("/")[2]
    for known_keys in (SET_BY_USERS, sorted(OUR_KEYS)):
        keys_by_name = {known_key.rpartition("/")[2]: known_key for known_key in known_keys}
        if similar_name := nearest(name, keys_by_name):
            return f"did you mean {keys_by_name[similar_name]}?"
    return "docs/reference/names-and-labels.md lists those that users write"
