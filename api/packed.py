"""JobSets as caches keep them: with templates as text, which takes a fifth of the memory of a tree.

Plans read templates, and are made of one JobSet at a time: `unpack` gives it with trees. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from api.jobset import JobSet
from kube.model.meta import JSON


class PackedTree(Mapping[str, Any]):
    """A JSON object as its text. It can be read like a dict, but slowly: each access decodes the whole text."""

    __slots__ = ("_text",)

    def __init__(self, tree: JSON) -> None:
        self._text = msgspec.json.encode(tree)

    def tree(self) -> JSON:
        """A new copy of the object."""
        found: JSON = msgspec.json.decode(self._text)
        return found

    def __getitem__(self, key: str) -> Any:
        return self.tree()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tree())

    def __len__(self) -> int:
        return len(self.tree())


def pack(js: JobSet) -> JobSet:
    """The JobSet for a cache."""
    jobs = tuple(replace(rjob, template=PackedTree(rjob.template)) for rjob in js.spec.replicated_jobs)
    return replace(js, spec=replace(js.spec, replicated_jobs=jobs))


def unpack(js: JobSet) -> JobSet:
    """The JobSet with its templates decoded; one that is not packed is returned as it is."""
    if not any(isinstance(rjob.template, PackedTree) for rjob in js.spec.replicated_jobs):
        return js
    jobs = tuple(
        replace(rjob, template=rjob.template.tree()) if isinstance(rjob.template, PackedTree) else rjob
        for rjob in js.spec.replicated_jobs
    )
    return replace(js, spec=replace(js.spec, replicated_jobs=jobs))
