"""JobSets sent to an API server that has our webhooks."""

from typing import Any

from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import request
from tests.support.objects.jobsets import JSON, jobset


def path(namespace: str, name: str = "", query: str = "") -> str:
    return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets{'/' if name else ''}{name}{query}"


def manifest(ns: str, *rjobs: JSON, **spec: Any) -> JSON:
    return jobset(*rjobs, namespace=ns, **spec)


def create(server: Cluster, ns: str, js: JSON) -> JSON:
    status, body = request(server, "POST", path(ns), js)
    assert status == 201, body
    return body
