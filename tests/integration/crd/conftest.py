"""JobSets on an API server that has our CRD; no webhook is asked."""

import re

import pytest

from tests.support.cluster.crd_calls import JOBSETS, STRICT
from tests.support.cluster.requests import MERGE, request


@pytest.fixture
def jobset(server, request_name):
    """Create, change and drop one JobSet; `send` answers (status, body) and `stored` demands success."""
    yield Sender(server, request_name)
    request(server, "DELETE", f"{JOBSETS}/{request_name}")


@pytest.fixture
def request_name(request):
    return "js-" + format(hash(request.node.nodeid) & 0xFFFFFFFF, "x")


_TYPE = re.compile(r'(?<=^Invalid value: )"(object|array)": ')


class Sender:
    def __init__(self, server, name):
        self.server, self.name, self.path = server, name, f"{JOBSETS}/{name}"

    def send(self, spec, method="POST", query=STRICT, **more):
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": self.name},
            "spec": spec,
        }
        if method == "POST":
            return request(self.server, "POST", f"{JOBSETS}?{query}", body | more)
        return request(self.server, "PATCH", self.path, {"spec": spec} | more, MERGE)

    def stored(self, spec, **options):
        status, answer = self.send(spec, **options)
        assert status in {200, 201}, answer
        return request(self.server, "GET", self.path)[1]

    def refusal(self, spec, **options):
        """The causes, as (field, message), without the type that an older API server names in the place of a value."""
        status, answer = self.send(spec, **options)
        assert status == 422, answer
        return [(c["field"], _TYPE.sub("", c["message"], count=1)) for c in answer["details"]["causes"]]
