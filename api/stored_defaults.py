"""Finds fields of a stored JobSet that lack the default of the mutating webhook. Pure.

They lack it if the API server did not call the webhook when the JobSet was created.
"""

from collections.abc import Iterator
from typing import Any

from kube.model.field import SPEC, Path
from kube.model.jsontree import dig

_SET_FIELD = (("network", "enableDNSHostnames"), "its pods have no DNS names")
_REPLICATED_JOB_FIELDS = (
    (("template", "spec", "completionMode"), "its pods have no index"),
    (("template", "spec", "template", "spec", "restartPolicy"), "its Jobs are refused"),
)
"""Fields whose default a set needs, each with its effect if it is missing."""


def missing_defaults(spec: Any) -> Iterator[tuple[Path, str]]:
    """The fields of a stored spec that lack their defaults, each with its effect on the set."""
    rjobs = dig(spec, "replicatedJobs")
    items = enumerate(rjobs) if isinstance(rjobs, list | tuple) else ()
    checks = [(SPEC.at("replicatedJobs", i), rjob, field) for i, rjob in items for field in _REPLICATED_JOB_FIELDS]
    for base, node, (keys, effect) in [(SPEC, spec, _SET_FIELD), *checks]:
        if isinstance(node, dict) and dig(node, *keys) in (None, ""):
            yield base.at(*keys), effect
