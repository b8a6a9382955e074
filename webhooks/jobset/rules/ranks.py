"""Numbers and ranks in commands that do not fit the pods. Warnings only. Pure.

See docs/reference/validation.md#ranks.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import islice, pairwise

from api import elastic
from api.batch import pods_at_once
from api.elastic_variables import NODES_VARIABLE, is_replaced_node_count
from api.keys import COMPLETION_INDEX, JOB_GLOBAL_INDEX, JOB_INDEX
from kube.model.field import FieldError, Path
from kube.model.jsontree import items
from kube.model.meta import MAX_INT32
from webhooks.jobset.rules import MAX_FINDINGS, Source
from webhooks.jobset.rules.command_texts import command_words, variable_values
from webhooks.jobset.rules.in_place import IN_PLACE
from webhooks.jobset.rules.variables import INDEX_VARIABLE
from webhooks.jobset.subject import Entry, Subject
from webhooks.jobset.templates import Container

_NODES_FLAG = re.compile(r"--nnodes(?:=|[ \t]+)[\"']?(\d{1,9})(?![\w:.])", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_OTHER_RANK = re.compile(r"(?i)hostname|(?<![a-z])job[-_](?:(?:global|group)[-_])?(?:index|name)|metadata\.name\b")
"""Texts by which a program may learn the Job of its pod."""

_DOCS = Source("docs/reference/validation.md#ranks")
NODES = _DOCS.warning(
    "nodes-not-pods", "{count} nodes, and there are {pods}: the rendezvous never ends", "write {pods_of}"
)
INDEX_ZERO = _DOCS.warning(
    "index-always-zero",
    f"{INDEX_VARIABLE} is 0 in each of the {{jobs}} Jobs, which have one pod each",
    f"read the label {JOB_INDEX}, or {JOB_GLOBAL_INDEX}",
)
RESTARTS_ALONE = _DOCS.warning(
    "restarts-alone-first",
    "a container that fails restarts alone, up to {times} times in a Job, while others wait; then maxRestarts counts",
    "set restartPolicy: Never and backoffLimit: 0",
)


def check_ranks(subject: Subject) -> Iterator[FieldError]:
    """Findings about numbers and indexes that do not fit the pods, at most as many as an answer lists."""
    sizes = _GroupSizes(subject)
    findings = (error for entry in subject.entries for error in _check_entry(sizes, entry))
    yield from islice(findings, MAX_FINDINGS)


class _GroupSizes:
    """Possible numbers of pods that work together: of a Job, of one or more ReplicatedJobs, of the set.

    `node_numbers`: by index of a ReplicatedJob, the numbers of nodes in its commands, with their paths; no entry
    without a flag or variable for them.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        numbered_entries = [entry for entry in subject.entries if _gets_node_number(entry)]
        workers = [entry for entry in numbered_entries if not entry.rjob.spare_for]
        follows_jobs = subject.gates[elastic.GATE] and len(workers) == 1
        self.node_numbers = {
            entry.index: list(_node_numbers(entry, follows_jobs=follows_jobs and entry is workers[0]))
            for entry in numbered_entries
        }

    @cached_property
    def _entries_by_pods(self) -> Counter[int]:
        return Counter(entry.pod_count for entry in self.subject.entries)

    @cached_property
    def _pods_with_numbers(self) -> int:
        """The number of pods in all ReplicatedJobs with a number of nodes."""
        return sum(entry.pod_count for entry in self.subject.entries if self.node_numbers.get(entry.index))

    def is_possible(self, entry: Entry, count: int) -> bool:
        """Whether `count` pods, some of them of this ReplicatedJob, may work together."""
        pods = entry.pod_count
        is_sum_of_two = self._entries_by_pods[count - pods] > (count == 2 * pods)
        known_counts = {pods_at_once(entry.job), pods, self._pods_with_numbers, self.subject.pod_count}
        return is_sum_of_two or count in known_counts


def _check_entry(sizes: _GroupSizes, entry: Entry) -> Iterator[FieldError]:
    numbers = sizes.node_numbers.get(entry.index, ())
    if len({count for _, count in numbers}) == 1:
        for text_path, count in numbers[:1]:
            if count > 1 and entry.pod_count and not sizes.is_possible(entry, count):
                yield _wrong_count(sizes, entry, text_path, count)
    if entry.rjob.replicas > 1 and entry.job.completions == 1 and entry.job.completion_mode != "NonIndexed":
        yield from _check_indexes(entry)
    yield from _check_restarts(sizes, entry)


def _wrong_count(sizes: _GroupSizes, entry: Entry, text_path: Path, count: int) -> FieldError:
    job_pods, entry_pods = pods_at_once(entry.job), entry.pod_count
    pods = f"{job_pods} pods in a Job" + (f", {entry_pods} in all its Jobs" if entry_pods != job_pods else "")
    numbers = " or ".join(str(number) for number in dict.fromkeys((job_pods, entry_pods, sizes.subject.pod_count)))
    return NODES.at(
        text_path, count, count=count, pods=pods, pods_of=f"{numbers}, or change parallelism and completions"
    )


def _gets_node_number(entry: Entry) -> bool:
    """Whether a container of the ReplicatedJob gets a number of nodes, by a flag or a variable."""
    return NODES_VARIABLE in entry.variable_names or "--nnodes" in entry.all_text


def _node_numbers(entry: Entry, *, follows_jobs: bool) -> Iterator[tuple[Path, int]]:
    """The numbers of nodes that torchrun gets, with their paths; ranges are ignored.

    `follows_jobs`: the controller may replace the number by the present number of Jobs.
    """
    for path, container in entry.each_container():
        for text_path, variable in path.at("env").each(container.env):
            number = variable.value if isinstance(variable.value, str) else ""
            if variable.name == NODES_VARIABLE and _NUMBER.fullmatch(number):
                follows = follows_jobs and pods_at_once(entry.job) == 1 and is_replaced_node_count(entry.rjob, number)
                yield text_path.at("value"), entry.rjob.replicas if follows else int(number)
        texts = list(command_words(path, container))
        for text_path, text in texts:
            yield from ((text_path, int(match[1])) for match in _NODES_FLAG.finditer(text))
        for (_, flag), (text_path, text) in pairwise(texts):
            if flag == "--nnodes" and _NUMBER.fullmatch(text):
                yield text_path, int(text)


def _check_indexes(entry: Entry) -> Iterator[FieldError]:
    """A finding for each container that uses the index of its pod, always 0, and nothing that names its Job."""
    if any(_OTHER_RANK.search(path) for path in _referenced_fields(entry)):
        return
    for path, container in entry.each_container():
        texts = [*command_words(path, container), *variable_values(path, container)]
        if any(_OTHER_RANK.search(text) for _, text in texts):
            continue
        text_path = next(_uses_of_index(path, container, texts), None)
        if text_path is not None:
            yield INDEX_ZERO.at(text_path, jobs=entry.rjob.replicas)


def _uses_of_index(path: Path, container: Container, texts: list[tuple[Path, str]]) -> Iterator[Path]:
    yield from (text_path for text_path, text in texts if INDEX_VARIABLE in text)
    for text_path, variable in path.at("env").each(container.env):
        if COMPLETION_INDEX in variable.field and variable.name != INDEX_VARIABLE:
            yield text_path


def _referenced_fields(entry: Entry) -> Iterator[str]:
    """Fields of the pod that its containers get as variables or files."""
    for _, container in entry.each_container():
        yield from (variable.field for variable in container.env)
    for _, volume in entry.each_volume():
        for item in items(volume.downward_api, "items"):
            yield str(item)


def _check_restarts(sizes: _GroupSizes, entry: Entry) -> Iterator[FieldError]:
    """A finding about pods that work together, if a failed container restarts alone before the set restarts."""
    policy, job = sizes.subject.failure_policy, entry.job
    if not policy.max_restarts or policy.restart_strategy == IN_PLACE or pods_at_once(job) < 2:
        return
    limit, numbers = job.backoff_limit or 0, sizes.node_numbers.get(entry.index)
    if numbers and 0 < limit < MAX_INT32 and job.template.spec.restart_policy == "OnFailure":
        yield RESTARTS_ALONE.at(entry.job_path.at("backoffLimit"), limit, times=limit)
