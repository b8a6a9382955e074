"""The API as a manager under measurement sees it: what it asks is answered at once, and counted."""

import time
from collections import Counter
from collections.abc import Callable

from controllers.resources import JOBSETS
from dev.simulator.api_server import ApiServer, RefusedError
from dev.simulator.discovery import discovery
from dev.simulator.resources import ALL, GROUPS
from dev.simulator.rest import PATH, Answer, Request, Rest, Stream, encode, refusal_answer

SERVED = {place: kind for place, kind in ALL.items() if kind not in GROUPS}
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
        """When a Job of a JobSet failed at will, by the JobSet's name, until the manager writes its status."""
        self.delays: list[float] = []
        """Seconds from such a failure to that write."""

    def handle(self, request: Request) -> Answer | Stream:
        """Answer one request, and count it."""
        verb, what, answer = self.answer(request) if PATH.match(request.path) else _server_answer(request)
        if "user-agent" in request.headers:  # the benchmark itself does not name itself
            self.calls[verb, what, answer.status if isinstance(answer, Answer) else 200] += 1
            if isinstance(answer, Stream):
                answer = self._weighed(answer, what)
            if request.method != "GET" and self.first_write is None:
                self.first_write = time.monotonic()
            if what == STATUS and (failed := self.failures.pop(request.path.split("/")[-2], None)) is not None:
                self.delays.append(time.monotonic() - failed)
        return answer

    def _weighed(self, stream: Stream, what: str) -> Stream:
        """The same stream, whose bytes are counted."""

        def begin(write: Callable[[bytes], None]) -> Callable[[], None]:
            def weigh(line: bytes) -> None:
                self.sent[what] += len(line)
                write(line)

            return stream.begin(weigh)

        return Stream(begin)


def _server_answer(request: Request) -> tuple[str, str, Answer]:
    """What the server says about itself."""
    if request.path in HEALTH:
        return "get", request.path, Answer(200, b"ok")
    found = discovery(request.path, SERVED.values())
    if found is None:
        return "get", request.path, refusal_answer(RefusedError(404, "NotFound", f"{request.path} is not served"))
    return "get", request.path, Answer(200, encode(found))
