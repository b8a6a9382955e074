"""The parts of a JobSet with their paths: those that messages name and that exist in the object."""

from typing import Any

import msgspec

from api.jobset import JobSet
from api.paths import claim_templates, replicated_jobs
from kube.model.jsontree import dig

JOBSET: dict[str, Any] = {
    "metadata": {"name": "train"},
    "spec": {
        "replicatedJobs": [{"name": "driver", "template": {}}, {"name": "workers", "template": {}}],
        "volumeClaimPolicies": [
            {"templates": [{"metadata": {"name": "scratch"}}]},
            {"templates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "logs"}}]},
        ],
    },
}


def test_each_path_leads_to_its_part() -> None:
    js = msgspec.convert(JOBSET, JobSet)
    jobs = list(replicated_jobs(js))
    assert [dig(JOBSET, *path.parts, "name") for path, _ in jobs] == [rjob.name for _, rjob in jobs]
    assert [str(path) for path, _ in jobs] == ["spec.replicatedJobs[0]", "spec.replicatedJobs[1]"]
    templates = list(claim_templates(js))
    assert [dig(JOBSET, *path.parts) for path, *_ in templates] == [template for _, template, *_ in templates]
    assert [str(path) for path, *_ in templates][1:] == [
        "spec.volumeClaimPolicies[1].templates[0]",
        "spec.volumeClaimPolicies[1].templates[1]",
    ]
    assert [dig(JOBSET, *base.parts, "templates") for _, _, base, _ in templates] == [
        list(policy.templates) for *_, policy in templates
    ]
