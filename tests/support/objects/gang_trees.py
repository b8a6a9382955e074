"""JobSets with `spec.scheduling`, and their trees of groups drawn as text."""

from api.gangs import Group, forest
from api.jobset import JobSet
from tests.support.objects.stored_sets import jobset, rjob

ALL, SINGLE, BASIC, GANG = {"all": {}}, {"single": {}}, {"basic": {}}, {"gang": {}}


def topology(key):
    return {"topology": [{"key": key}]}


def at_least(groups):
    return {"gang": {"minGroupCount": groups}}


def entry(*targets, **fields):
    return {"targetReplicatedJobs": list(targets), **fields}


def a_set(*rjobs, scheduling, **spec):
    return jobset(*rjobs, scheduling=scheduling, **spec)


def workers(name="workers", jobs=2, pods=2, **more):
    return rjob(name, jobs, parallelism=pods, completions=pods, **more)


def picture(js: JobSet) -> list[str]:
    """The trees, a group a line: two spaces a level, kind, template, number, topology, mode, and the Jobs it has."""
    found = forest(js)
    assert found is not None
    lines: list[str] = []

    def draw(group: Group, depth: int) -> None:
        jobs = " ".join(name.removeprefix("js-") for name, _ in group.jobs)
        words = [
            "CPG" if group.is_composite else "PG",
            group.template,
            "basic" if group.gang_size is None else f"gang {group.gang_size}",
            group.topology_key,
            group.disruption_mode,
        ]
        lines.append("  " * depth + " ".join(filter(None, words)) + (f": {jobs}" if jobs else ""))
        for child in group.children:
            draw(child, depth + 1)

    for root in found.roots:
        draw(root, 0)
    return lines
