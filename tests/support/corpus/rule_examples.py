"""The examples of cli/rule/explanations.yaml as JobSets."""

import re
from typing import Any

import yaml

from cli.rule.explanations import explanations
from kube.model.jsontree import dig, set_in
from tests.support.objects.jobsets import JSON, jobset, rjob

IN_PARTS = [name for name, row in explanations().items() if row.at]
"""Rules whose examples stand in a part of a JobSet."""


def with_part(place: str, text: str) -> JSON:
    """A JobSet of one ReplicatedJob with two pods, and this YAML in one of its parts, which is made if it is absent."""
    main = {"name": "main", "image": "docker.io/library/python:3.13"}
    pod = {"restartPolicy": "Never", "containers": [main]}
    js = jobset(rjob(parallelism=2, completions=2, pod=pod))
    keys: list[Any] = [int(key) if key.isdigit() else key for key in re.findall(r"\w+", place)]
    return set_in(js, keys, (dig(js, *keys) or {}) | yaml.safe_load(text))
