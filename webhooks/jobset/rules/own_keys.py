"""Labels and annotations that have no effect: misspelt ones of JobSet, Kueue's on a template. Warnings only. Pure.

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

LONGEST_KEY = max(map(len, OUR_PREFIXES)) + MAX_LABEL
"""Characters of a key: a longer one is an error of its own."""

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


def misplaced_queue(js: Subject) -> Iterator[FieldError]:
    """The label of a queue of Kueue on a template of a set that has none: the set runs without a quota, or never."""
    if QUEUE_NAME in js.js.metadata.labels:
        return
    for entry in js.entries[:MAX_FINDINGS]:
        for path, template in ((entry.path.at("template"), entry.template), (entry.pod_path, entry.job.template)):
            if (queue := template.metadata.labels.get(QUEUE_NAME)) is not None:
                yield QUEUE.at(path.at("metadata", "labels", QUEUE_NAME), queue)
                break


def unknown_keys(js: Subject) -> Iterator[FieldError]:
    """Unknown keys with our prefixes on the JobSet, on Job templates and pod templates."""
    yield from islice(
        (UNKNOWN.at(path.at(key), guess=partial(_suggestion, key)) for path, key in _unknown(js)), MAX_FINDINGS
    )


def _unknown(js: Subject) -> Iterator[tuple[Path, str]]:
    meta = js.js.metadata
    own: list[tuple[Path, str, Iterable[str]]] = [
        (Path(("metadata",)), "annotations", meta.annotations),
        (Path(("metadata",)), "labels", meta.labels),
    ]
    for entry in js.entries:
        for path, on in ((entry.path.at("template"), entry.template), (entry.pod_path, entry.job.template)):
            own.append((path.at("metadata"), "annotations", on.metadata.annotations))
            own.append((path.at("metadata"), "labels", on.metadata.labels))
    for path, field, found in own:
        for key in found:
            if key.startswith(OUR_PREFIXES) and key not in OUR_KEYS and len(key) <= LONGEST_KEY:
                yield path.at(field), key


def _suggestion(key: str) -> str:
    """The most similar known key, compared without the prefixes, which are alike."""
    name = key.rpartition("/")[2]
    for keys in (SET_BY_USERS, sorted(OUR_KEYS)):
        names = {known.rpartition("/")[2]: known for known in keys}
        if close := nearest(name, names):
            return f"did you mean {names[close]}?"
    return "docs/reference/names-and-labels.md lists those that users write"
