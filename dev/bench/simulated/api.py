"""The API for a manager under measurement: requests are answered at once and counted."""

import time
from collections import Counter
from collections.abc import Callable

from controllers.resources import JOBSETS
from dev.simulator.api_server import ApiServer, RefusedError
from dev.simulator.discovery import discovery
from dev.simulator.resources import ALL, GROUPS
from dev.simulator.rest import PATH, Answer, Request, Rest, Stream, encode, refusal_answer

SERVED = {key: kind for key, kind in ALL.items() if kind not in GROUPS}
STATUS = f"{JOBSETS.plural}/status"
HEALTH = frozenset({"/readyz", "/healthz", "/livez"})


class Api(Rest):
    """Answers requests. `calls` counts those of the manager by (verb, resource, code)."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server, lambda version, plural: SERVED.get((version, plural)))
        self.calls: Counter[tuple[str, str, int]] = Counter()
        self.sent: Counter[str] = Counter()
        """Bytes of the events that its watches were sent, by resource."""
        self.first_write: float | None = None
        """When the manager first wrote an object, in seconds of the machine's monotonic clock."""
        self.failures: dict[str, float] = {}
        """When a Job was made to fail, by the name of its JobSet, until the manager writes the status."""
        self.delays: list[float] = []
        """Seconds from such a failure to that write."""

    def handle(self, request: Request) -> Answer | Stream:
        """Answer one request, and count it."""
        verb, resource, answer = self.answer(request) if PATH.match(request.path) else _server_answer(request)
        if "user-agent" in request.headers:  # the benchmark itself does not name itself
            self.calls[verb, resource, answer.status if isinstance(answer, Answer) else 200] += 1
            if isinstance(answer, Stream):
                answer = self._count_bytes(answer, resource)
            if request.method != "GET" and self.first_write is None:
                self.first_write = time.monotonic()
            if resource == STATUS and (failed := self.failures.pop(request.path.split("/")[-2], None)) is not None:
                self.delays.append(time.monotonic() - failed)
        return answer

    def _count_bytes(self, stream: Stream, resource: str) -> Stream:
        """The same stream with its bytes counted in `sent`."""

        def begin(write: Callable[[bytes], None]) -> Callable[[], None]:
            def write_counted(line: bytes) -> None:
                self.sent[resource] += len(line)
                write(line)

            return stream.begin(write_counted)

        return Stream(begin)


def _server_answer(request: Request) -> tuple[str, str, Answer]:
    """The answer to a request that is not about objects."""
    if request.path in HEALTH:
        return "get", request.path, Answer(200, b"ok")
    found = discovery(request.path, SERVED.values())
    if found is None:
        return "get", request.path, refusal_answer(RefusedError(404, "NotFound", f"{request.path} is not served"))
    return "get", request.path, Answer(200, encode(found))
