"""Answers that are not a Status of Kubernetes: the API server's own few words are kept, a proxy's page is not."""

import pytest

from kube.errors import Call, from_response

CALL = Call("list", "/apis/x")


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [
        (
            400,
            b"Client sent an HTTP request to an HTTPS server.\n",
            (
                "list /apis/x: 400: Client sent an HTTP request to an HTTPS server:"
                " the server in the kubeconfig has to begin with https"
            ),
        ),
        (
            404,
            b"404 page not found\n",
            "list /apis/x: 404: 404 page not found: the API server serves nothing at this path",
        ),
        (
            502,
            b"<html>secret</html>",
            "list /apis/x: 502: HTTP 502 with a body that is not a Kubernetes Status (dropped)",
        ),
        (
            403,
            b'{"kind": "Status", "reason": "Forbidden", "message": "no right"}',
            "list /apis/x: 403 Forbidden: no right",
        ),
        (401, b'{"kind": "Status", "reason": "Unauthorized"}', "list /apis/x: 401 Unauthorized"),
    ],
)
def test_an_answer_says_what_is_wrong(code: int, body: bytes, said: str):
    assert str(from_response(code, {}, body, CALL)) == said
