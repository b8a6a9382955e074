"""Operations of the Python client, played without IO: the answers come from a list, and the steps are kept."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jobset_client.core import Answer, Call, Emit, Operation, Read, Sleep, Step
from tests.support.objects.jobsets import jobset, rjob

JSON = dict[str, Any]


def said(body: Any, status: int = 200, **more: Any) -> Answer:
    """An answer with this body."""
    return Answer(status, json.dumps(body).encode(), **more)


def status(code: int, reason: str, message: str, **details: Any) -> Answer:
    """A refusal, as the API server words it."""
    return said({"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}, code)


def listed(*items: JSON, version: str = "10", more: str = "") -> Answer:
    return said({"metadata": {"resourceVersion": version, "continue": more}, "items": list(items)})


def event(kind: str, body: JSON) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def pieces(*events: bytes) -> list[Answer]:
    """A watch that begins, brings these events, each in a piece of its own, and ends."""
    return [Answer(), *(Answer(body=one) for one in events), Answer()]


@dataclass
class Played:
    """What an operation has done."""

    steps: list[Step] = field(default_factory=list)
    emitted: list[Any] = field(default_factory=list)
    result: Any = None
    error: Exception | None = None

    @property
    def calls(self) -> list[Call]:
        return [step for step in self.steps if isinstance(step, Call)]

    @property
    def asked(self) -> list[str]:
        """Method and last part of the path of each request."""
        return [f"{call.method} {call.path.rpartition('/')[2]}" for call in self.calls]

    @property
    def slept(self) -> int:
        return sum(isinstance(step, Sleep) for step in self.steps)


class Clock:
    """Seconds that pass with each sleep, and with each piece of a watch."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def play(
    operation: Operation[Any], answers: Iterable[Answer | Exception], clock: Clock | None = None, most: int = 1000
) -> Played:
    """Run it to its end, or until the answers are over; an exception among them is thrown."""
    played, waiting = Played(), iter(answers)
    try:
        step = next(operation)
        for _ in range(most):
            played.steps.append(step)
            answer: Answer | Exception = Answer()
            if isinstance(step, Emit):
                played.emitted.append(step.value)
            elif isinstance(step, Sleep):
                if clock:
                    clock.now += step.seconds
            elif (found := next(waiting, None)) is None:
                return played
            else:
                answer = found
                if clock and isinstance(step, Read):
                    clock.now += 1
            step = operation.throw(answer) if isinstance(answer, Exception) else operation.send(answer)
    except StopIteration as end:
        played.result = end.value
    except Exception as error:  # noqa: BLE001 (the test looks at it)
        played.error = error
    return played


def a_set(*conditions: str, ready: int = 0, ended: str = "", version: int = 1, uid: str = "u", **spec: Any) -> JSON:
    """One ReplicatedJob of two Jobs."""
    body = jobset(rjob(replicas=2), namespace="team-a", **spec)
    body["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    body["status"] = {
        "conditions": [{"type": kind, "status": "True", "message": "its end"} for kind in (*conditions, ended) if kind],
        "replicatedJobsStatus": [{"name": "workers", "ready": ready, "succeeded": 0}],
        **({"terminalState": ended} if ended else {}),
    }
    return body
