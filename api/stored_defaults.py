"""Defaults that a stored JobSet lacks because no webhook was called when it was created. Pure."""

from collections.abc import Iterator
from typing import Any

from kube.model.field import SPEC, Path
from kube.model.jsontree import dig

_OF_SET = (("network", "enableDNSHostnames"), "its pods have no DNS names")
_OF_REPLICATED_JOBS = (
    (("template", "spec", "completionMode"), "its pods have no index"),
    (("template", "spec", "template", "spec", "restartPolicy"), "its Jobs are refused"),
)
"""Fields whose default a set needs, each with what happens without it."""


def missing_defaults(spec: Any) -> Iterator[tuple[Path, str]]:
    """The fields of a stored spec that lack their defaults, each with its effect on the set."""
    rjobs = dig(spec, "replicatedJobs")
    items = enumerate(rjobs) if isinstance(rjobs, list | tuple) else ()
    parts = [(SPEC.at("replicatedJobs", i), rjob, field) for i, rjob in items for field in _OF_REPLICATED_JOBS]
    for base, part, (keys, means) in [(SPEC, spec, _OF_SET), *parts]:
        if isinstance(part, dict) and dig(part, *keys) in (None, ""):
            yield base.at(*keys), means
