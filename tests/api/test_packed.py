"""JobSets as caches keep them."""

import msgspec
import pytest

from api.batch import Job
from api.children import build_job
from api.jobset import JobSet
from api.keys import JOBSET_NAME, PRIORITY
from api.layout import layout_of
from api.packed import pack, unpack
from kube.model.meta import JSON
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.work import retained_memory

UID = "11111111-2222-4333-8444-555555555555"


def js(number: int = 0, **spec: object) -> JobSet:
    body = stored(jobset(rjob(replicas=5), **spec))
    body["metadata"] = {"name": f"train-{number}", "namespace": "ns", "uid": UID[:-5] + f"{number:05}"}
    pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [{"name": f"SETTING_{n}", "value": f"set to {n} for {number}"} for n in range(12)]
    return msgspec.json.decode(msgspec.json.encode(body), type=JobSet)


def job_line(of: JobSet, index: int, **labels: str) -> bytes:
    """A child Job as the API server sends it."""
    layout = layout_of(of)
    jobs = layout.ranges[0]
    body = build_job(of, layout, jobs, jobs.position(of.metadata.name, index))
    uid = f"{index:08}{UID[8:]}"
    body["metadata"] |= {"uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    name = body["metadata"]["name"]
    own = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    body["spec"]["template"]["metadata"]["labels"] |= own | {"controller-uid": uid, "job-name": name} | labels
    body["status"] = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
    return msgspec.json.encode(body)


def test_what_is_unpacked_is_what_was_packed():
    whole = js()
    assert unpack(pack(whole)) == whole
    assert unpack(whole) is whole


def test_a_packed_template_reads_as_the_tree():
    whole = js()
    [before], [after] = whole.spec.replicated_jobs, pack(whole).spec.replicated_jobs
    assert dict(after.template) == before.template
    assert (after.parallelism, after.pod_spec) == (before.parallelism, before.pod_spec)


def test_a_set_with_five_jobs_takes_at_most_10_kib():
    """Without indexes, the Service and what the process remembers, which take 3 KiB more."""
    number = 200
    sets = [msgspec.json.encode(js(n)) for n in range(number)]
    jobs = [job_line(js(n), index, **{PRIORITY: "0"}) for n in range(number) for index in range(5)]

    def cached() -> list:
        return [
            *(pack(msgspec.json.decode(line, type=JobSet)) for line in sets),
            *(msgspec.json.decode(line, type=Job) for line in jobs),
        ]

    assert len(cached()) == 6 * number
    assert retained_memory(cached) / number < 10 * 1024


@pytest.mark.parametrize("labels", [{}, {"app": "x"}, {PRIORITY: "0", "app": "y"}])
def test_labels_of_a_template_are_kept_without_those_of_the_job_controller(labels: JSON):
    job = msgspec.json.decode(job_line(js(), 3, **labels), type=Job)
    found = job.spec.template.metadata.labels
    assert found == job.metadata.labels | labels
    assert [found.get(key) for key in ("app", "job-name", JOBSET_NAME)] == [labels.get("app"), None, "train-0"]
