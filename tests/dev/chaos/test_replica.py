"""When a replica has to answer: not from its end, or while it is stopped, until it is ready again."""

import math
import signal
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from dev.chaos.replica import GRACE_SECONDS, Replica


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def replica(tmp_path) -> Iterator[Replica]:
    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        nothing: Any = None
        yield Replica(0, tmp_path, nothing, nothing, nothing, nothing, {}, health_port=server.server_port)
        server.shutdown()
        thread.join()


def test_it_has_to_answer_from_the_first_time_it_is_ready_on(replica):
    assert replica.answer_windows == []
    for _ in range(2):
        replica._probe()
    [(begin, end)] = replica.answer_windows
    assert begin > 0
    assert end == math.inf


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL])
def test_it_need_not_answer_once_it_is_told_to_stop_or_end(replica, number):
    replica._probe()
    replica.signal(number)
    replica._probe()
    [(begin, end)] = replica.answer_windows
    assert begin <= end < math.inf
    replica.signal(signal.SIGCONT)
    replica._probe()
    assert [end == math.inf for _, end in replica.answer_windows] == [False, True]


def test_a_life_that_ends_by_itself_had_to_answer_until_it_began_to_end(replica):
    replica._probe()
    replica._end_answer_window(replica.answer_windows[0][0] + 100 - GRACE_SECONDS)
    replica._end_answer_window(math.inf)
    assert replica.answer_windows == [
        (replica.answer_windows[0][0], replica.answer_windows[0][0] + 100 - GRACE_SECONDS)
    ]
