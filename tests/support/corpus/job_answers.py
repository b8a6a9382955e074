"""What a real API server says about the Jobs of `job_mistakes`: asked with a dry run, and kept beside this file.

`python -m tests.support.corpus.job_answers` starts an API server, asks about every case and writes the answers down.
"""

import json
import re
import tempfile
from pathlib import Path

from api.features import FeatureGates
from dev.cluster.cluster import Cluster, running
from dev.cluster.spec import ClusterSpec
from kube.model.field import Parts
from kube.model.job_rules.job import job_errors
from kube.model.jsontree import dig
from tests.support.cluster.requests import request
from tests.support.corpus.job_mistakes import CASES
from tests.support.objects.jobsets import JSON, jobset, stored
from webhooks.jobset.cluster.answer_texts import parts_of
from webhooks.jobset.cluster.children import child_jobs, with_identity
from webhooks.jobset.subject import subject_of

RECORDED = Path(__file__).with_name("job_answers.json")
DRY_RUN = "/apis/batch/v1/namespaces/default/jobs?dryRun=All"
Said = tuple[Parts, str]
"""A place and what is said there."""


def child(rjob: JSON) -> JSON:
    """The Job that a JobSet with this one ReplicatedJob makes."""
    raw = stored(jobset(rjob))
    gates = FeatureGates()
    (only,) = child_jobs(raw, with_identity(subject_of(raw, gates).js, "default"), gates, [0])
    return only.body


def ask(server: Cluster, job: JSON) -> list[JSON] | None:
    """The causes of the API server's refusal, without values that are objects or lists; none where it takes the Job.

    None where the Job cannot even be read.
    """
    status, answer = request(server, "POST", DRY_RUN, job)
    if status == 400:
        return None
    if status == 201:
        return []
    assert status == 422, answer
    causes = [{**cause, "message": without_trees(cause["message"])} for cause in answer["details"]["causes"]]
    return sorted(causes, key=lambda cause: (cause["field"], cause["message"]))


def recorded() -> dict[str, list[JSON]]:
    answers: dict[str, list[JSON]] = json.loads(RECORDED.read_text())
    return answers


def record() -> None:
    spec = ClusterSpec(name="answers", profile="api")
    with tempfile.TemporaryDirectory() as folder, running(spec, state_root=Path(folder)) as server:
        write({name: ask(server, child(case)) for name, case in CASES.items()})


def write(answers: dict[str, list[JSON] | None]) -> None:
    RECORDED.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")


def unexpected(job: JSON, causes: list[JSON]) -> tuple[list[Said], list[Said]]:
    """What the API server says and the rules do not, and the other way round; both empty where they agree.

    Not compared is what the API server says a second time: of a default that it made of a value, of labels that a
    selector which is refused does not match.
    """
    ours = [[said(place, error.complaint) for place in spellings(str(error.path))] for error in job_errors(job)]
    theirs = [said(cause["field"], cause["message"]) for cause in causes]
    missing = [one for one in theirs if not any(one in own for own in ours) and not repeated(one, theirs, job)]
    return missing, [own[0] for own in ours if not any(one in theirs for one in own)]


def said(field: str, message: str) -> Said:
    return parts_of(field), message


def repeated(one: Said, theirs: list[Said], job: JSON) -> bool:
    place, text = one
    if "ephemeralContainers" in place[:-1]:
        return any(other[-1] == "ephemeralContainers" for other, _ in theirs)
    if text.endswith("`selector` does not match template `labels`"):
        return any(other == ("spec", "selector") for other, _ in theirs)
    return dig(job, *place) is None and any(other != place and words == text for other, words in theirs)


def spellings(place: str) -> list[str]:
    """One of our places, and the same as the API server may write it."""
    return list(dict.fromkeys([place, *(pattern.sub(theirs, place) for pattern, theirs in PLACES)]))


PLACES = [
    (re.compile(ours), theirs)
    for ours, theirs in (
        (r"\.template\.metadata\.(labels|annotations)$", r".template.\1"),
        (r"(httpHeaders|resizePolicy)\[\d+\]\.\w+$", r"\1"),
        (r"(envFrom|accessModes)\[\d+\]$", r"\1"),
        (r"(downwardAPI)\.items\[\d+\]", r"\1"),
        (r"(projected)\.sources\[\d+\]\.serviceAccountToken(\.path)$", r"\1\2"),
        (r"\.matchLabelKeys(\[\d+\])$", r"\1"),
        (r"\.downwardAPI$", ".downwarAPI"),
        (r"namespaces\[\d+\]$", "namespace"),
        (r"\.overhead\.", ".overhead.limits."),
        (r"(volumeMounts)\[\d+\]\.(subPath\w*|mountPropagation|recursiveReadOnly)$", r"\1.\2"),
        (r"\.host(PID|IPC)$", r".Host\1"),
    )
]
"""Places that the API server spells in a way that leads nowhere in the Job."""


def without_trees(message: str) -> str:
    """A message without the object or list that it shows as its value."""
    kind, separator, rest = message.partition(": ")
    if not separator or rest[:1] not in "{[" or kind == "Required value":
        return message
    try:
        _, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return message
    return f"{kind}{rest[end:]}"


if __name__ == "__main__":
    record()
