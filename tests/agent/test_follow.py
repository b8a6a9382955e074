"""Failing requests to the API server: what is reported, when they are tried again, and what is never done twice."""

import contextlib
import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

from agent.api import Api, ApiError
from agent.decision import Action, Notice
from agent.follow import FIRST_PAUSE, LONGEST_PAUSE, Continuation, JobSetWatcher


class StopTestError(Exception):
    """Ends a watcher that would go on for ever."""


FAILS = "the worker fails"
"""A step of a watch: meanwhile."""


class Script:
    """An Api whose answers are written down: each list or watch takes the next of its kind."""

    def __init__(self, lists=(), watches=(), reports=()):
        self._lists, self._watches, self._reports = iter(lists), iter(watches), iter(reports)
        self.reported = []

    def read_jobset(self):
        return self._give(self._lists)

    def watch(self, is_wanted):
        for step in self._give(self._watches):
            if isinstance(step, Exception):
                raise step
            if step == FAILS:
                self.watcher.report_failure("3 Error")
            if not is_wanted():
                raise ApiError("interrupted")
            yield step

    def interrupt(self):
        self.interrupted = True

    def report(self, attempt, failure):
        self.reported.append((attempt, failure) if failure else attempt)
        self._give(self._reports, default=None)

    def close(self):
        self.reported.append("closed")

    @staticmethod
    def _give(answers, **default):
        answer = next(answers, default.get("default", StopTestError()))
        if isinstance(answer, Exception):
            raise answer
        return answer


def jobset(previous=None, current=None, strategy="InPlaceRestart", state=""):
    status = {"previousInPlaceRestartAttempt": previous, "currentInPlaceRestartAttempt": current}
    status |= {"terminalState": state} if state else {}
    return {"metadata": {}, "spec": {"failurePolicy": {"restartStrategy": strategy}}, "status": status}


def moving(previous=None, current=None):
    """With a notice that is open."""
    state = jobset(previous, current)
    state["spec"]["failurePolicy"]["maintenance"] = {"notice": {"signal": "SIGUSR1"}}
    state["status"]["maintenance"] = {"noticeTime": "t"}
    return state


def follow(script, beside=None):
    """Run to the end of the script; gives what was done and the pauses. `beside`: reports while the watch continues."""
    done, pauses = [], []
    following = None if beside is None else Continuation(lambda: done.append("ended"), beside)
    script.watcher = watcher = JobSetWatcher(script, done.append, pauses.append, following)
    with contextlib.suppress(StopTestError):
        watcher.run()
    return done, pauses


class TestRounds:
    def test_a_whole_attempt(self):
        script = Script([jobset()], [[jobset(None, 0), jobset(None, 0)], [jobset(0, 0)]])
        assert follow(script) == ([Action.LIFT, Action.RESTART], [])
        assert script.reported == [0]

    def test_the_state_that_ends_the_attempt_leaves_its_notice_open(self):
        """The same write of the status ends both, and an agent that is stopping then asks for the acknowledgement."""
        notices = []
        script = Script([jobset()], [[jobset(None, 0), moving(None, 0), jobset(0, 0)]])
        JobSetWatcher(script, notices.append, notify=notices.append).run()
        assert notices[-2:] == [Notice("t", "SIGUSR1"), Action.RESTART]

    def test_no_decision_before_the_report_is_stored(self):
        script = Script([jobset(), jobset(None, 0)], [], [ApiError("no"), None])
        assert follow(script)[0] == [Action.LIFT]

    def test_a_report_whose_answer_was_lost_is_repeated_as_it_was(self):
        """It had been counted: everybody reported 0, which is current by now."""
        script = Script([jobset(), jobset(None, 0)], [], [ApiError("lost"), None])
        follow(script)
        assert script.reported == [0, 0]

    def test_an_attempt_that_was_over_before_it_was_reported(self):
        script = Script([jobset(3, 2)])
        assert follow(script) == ([Action.RESTART], [])

    def test_after_trouble_in_a_watch_it_lists_and_reports_nothing_again(self):
        gone = ApiError("the watch ended: too old resource version")
        script = Script([jobset(), jobset(), jobset(0, 0)], [[gone], [jobset(None, 0), ApiError("cut")]])
        done, pauses = follow(script)
        assert done == [Action.LIFT, Action.RESTART]
        assert script.reported == [0]
        assert len(pauses) == 2

    def test_a_bypass_that_ends_within_a_watch_leads_to_a_report_from_a_fresh_list(self):
        script = Script([jobset(strategy="x"), jobset(0, 1)], [[jobset()]])
        assert follow(script)[0] == [Action.LIFT]
        assert script.reported == [2]

    def test_a_watch_that_ends_at_once_is_not_asked_for_in_a_tight_loop(self):
        pauses = follow(Script([jobset()], [[], [jobset()], []]))[1]
        assert len(pauses) == 2
        assert all(FIRST_PAUSE / 2 <= pause <= FIRST_PAUSE for pause in pauses)


class TestTheWorkerOnly:
    """The agent continues with the next attempt, within the same watch."""

    def test_two_attempts_in_one_watch(self):
        script, beside = Script([jobset()], [[jobset(None, 0), jobset(0, 0), jobset(0, 1), jobset(1, 1)]]), Script()
        assert follow(script, beside)[0] == [Action.LIFT, "ended", Action.LIFT, "ended"]
        assert script.reported == [0]
        assert beside.reported == [1, "closed", 2, "closed"]

    def test_an_attempt_that_is_over_before_it_began(self):
        script, beside = Script([jobset(3, 2)], [[jobset(3, 4)]]), Script()
        assert follow(script, beside)[0] == ["ended", Action.LIFT]
        assert (script.reported, beside.reported) == ([3], [4, "closed"])

    def test_an_old_state_makes_it_report_no_attempt_again(self):
        """It says that attempt 0 is over, and not yet that 1 runs, which this pod took part in."""
        script, beside = Script([jobset()], [[jobset(0, 0), jobset(0, 0), jobset(0, 1)]]), Script()
        assert follow(script, beside)[0] == ["ended", Action.LIFT]
        assert beside.reported == [1, "closed"]

    def test_a_report_that_fails_is_sent_again_as_it_was_before_the_barrier_may_fall(self):
        script = Script([jobset(), jobset(0, 1)], [[jobset(None, 0), jobset(0, 0)]], [None, None])
        done, pauses = follow(script, Script(reports=[ApiError("cut")]))
        assert done == [Action.LIFT, "ended", Action.LIFT]
        assert script.reported == [0, 1]
        assert len(pauses) == 1


class TestPauses:
    def test_they_double_up_to_a_limit_and_differ_between_agents(self):
        pauses = follow(Script([ApiError("down")] * 12))[1]
        most = [min(FIRST_PAUSE * 2**n, LONGEST_PAUSE) for n in range(12)]
        assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, most, strict=True))
        assert len(set(pauses)) == len(pauses)

    def test_a_success_resets_them(self):
        pauses = follow(Script([ApiError("x")] * 4 + [jobset(), ApiError("x")], [[ApiError("x")]]))[1]
        assert pauses[4] <= FIRST_PAUSE

    def test_retry_after_of_the_api_server_is_honoured_within_limits(self):
        pauses = follow(Script([ApiError("busy", 7), ApiError("busy", 3600)]))[1]
        assert pauses == [7, LONGEST_PAUSE]


class Server:
    """An HTTP server that gives each request the next (status, headers, body); a str body ends with the connection."""

    def __init__(self):
        self.answers, self.asked = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self):
                with contextlib.suppress(OSError):
                    super().handle_one_request()

            def do_GET(self):
                length = int(self.headers.get("Content-Length") or 0)
                outer.asked.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
                status, headers, body = outer.answers.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PATCH = do_GET  # noqa: N815 - the server's name for it

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server():
    with contextlib.closing(Server()) as server:
        yield server


@pytest.fixture
def settings(server, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    return SimpleNamespace(
        namespace="ns", jobset="js", pod="pod", account_folder=tmp_path, port=server.port, restart_failed=False
    )


def plain(settings):
    """Without TLS, which the tests with the real API server have."""
    connection = http.client.HTTPConnection("127.0.0.1", settings.port, timeout=5)
    connection.connect()
    return connection


@pytest.fixture
def api(settings):
    with contextlib.closing(Api(settings, plain)) as api:
        yield api


def listing(*items, version="5"):
    return 200, {}, json.dumps({"metadata": {"resourceVersion": version}, "items": items}).encode()


def events(*lines):
    return 200, {}, b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def event(kind, version, **more):
    return {"type": kind, "object": {"metadata": {"resourceVersion": version, **more}}}


class TestRequests:
    def test_a_list_reads_from_the_store_and_a_watch_continues_from_there(self, server, api):
        server.answers = [listing({"metadata": {"name": "js"}}), events(event("BOOKMARK", "9")), events()]
        assert api.read_jobset() == {"metadata": {}}, "and nothing is kept that no decision needs"
        assert list(api.watch()) == []
        assert list(api.watch()) == []
        paths = [path for _, path, _, _ in server.asked]
        assert paths[0] == "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets?fieldSelector=metadata.name%3Djs"
        assert "resourceVersion=5" in paths[1]
        assert "resourceVersion=9" in paths[2], "bookmarks count"
        assert {headers["Authorization"] for _, _, headers, _ in server.asked} == {"Bearer secret"}

    def test_states_and_the_end_of_a_set(self, server, api):
        server.answers = [listing(), events(event("ADDED", "6", name="js"), event("DELETED", "7"))]
        assert api.read_jobset() is None
        seen = list(api.watch())
        assert seen[0] == {"metadata": {"resourceVersion": "6"}}
        assert seen[1] is None

    def test_the_report_changes_one_annotation(self, server, api):
        server.answers = [(200, {}, b"{}")]
        api.report(3)
        [(verb, path, headers, body)] = server.asked
        assert (verb, path) == (
            "PATCH",
            "/api/v1/namespaces/ns/pods/pod?fieldManager=in-place-restart-agent",
        )
        assert headers["Content-Type"] == "application/merge-patch+json"
        assert json.loads(body) == {"metadata": {"annotations": {"jobset.sigs.k8s.io/in-place-restart-attempt": "3"}}}

    def test_where_the_agent_reports_failures_each_report_says_whether_there_was_one(self, server, settings, api):
        settings.restart_failed = True
        for failure, said in (("3 Error", "3 Error"), ("", None)):
            server.answers = [(200, {}, b"{}")]
            api.report(3, failure)
            annotations = json.loads(server.asked[-1][3])["metadata"]["annotations"]
            assert annotations["jobset.sigs.k8s.io/in-place-restart-failure"] == said

    def test_an_open_watch_ends_when_it_is_interrupted(self, server, api):
        """The server sends a line of two that it has announced, and then nothing."""
        line = json.dumps(event("MODIFIED", "6")).encode() + b"\n"
        server.answers = [listing(), (200, {"Content-Length": str(2 * len(line))}, line)]
        api.read_jobset()
        wanted = [True]
        watch = api.watch(lambda: wanted[0])
        assert next(watch) == {"metadata": {"resourceVersion": "6"}}

        def interrupt():
            wanted[0] = False
            api.interrupt()

        timer = threading.Timer(0.1, interrupt)
        timer.start()
        with pytest.raises(ApiError, match="watching jobset js"):
            next(watch)
        timer.join()
        server.answers = [listing()]
        assert api.read_jobset() is None, "the next request works"

    def test_a_watch_that_is_not_wanted_any_more_when_it_opens_does_not_wait(self, server, api):
        server.answers = [listing(), (200, {"Content-Length": "100"}, b"")]
        api.read_jobset()
        with pytest.raises(ApiError, match="interrupted"):
            next(api.watch(lambda: False))

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            ((503, {}, b"unavailable"), "HTTP 503: unavailable"),
            ((500, {}, b""), "HTTP 500: Internal Server Error"),
            (
                (403, {}, b'{"message": "forbidden"}'),
                "HTTP 403: forbidden; grant the pod's ServiceAccount patch on pods",
            ),
            ((404, {}, b"[]"), "is JobSet installed"),
            ((200, {}, b"<html>"), "JSONDecodeError"),
            ((200, {}, b"{}"), "KeyError"),
            ((200, {}, b"[]"), "TypeError"),
            ((200, {"Content-Length": "100", "Connection": "close"}, b"{"), "JSONDecodeError"),
        ],
    )
    def test_whatever_is_wrong_is_trouble(self, server, api, answer, text):
        server.answers = [answer, listing()]
        with pytest.raises(ApiError, match="reading jobset js: ") as caught:
            api.read_jobset()
        assert text in str(caught.value)
        assert api.read_jobset() is None, "the next request works"

    def test_retry_after_is_passed_on(self, server, api):
        server.answers = [(429, {"Retry-After": "7"}, b"busy")]
        with pytest.raises(ApiError) as caught:
            api.read_jobset()
        assert caught.value.pause == 7

    def test_an_expired_watch_is_trouble(self, server, api):
        expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
        server.answers = [listing(), events(expired)]
        api.read_jobset()
        with pytest.raises(ApiError, match="too old resource version"):
            list(api.watch())

    def test_an_answer_without_end_is_given_up(self, server, settings):
        server.answers = [(200, {}, b"x" * (2 << 20)), listing(), (200, {}, b"x" * (2 << 20))]
        with contextlib.closing(Api(settings, plain, longest_answer=1 << 20)) as api:
            with pytest.raises(ApiError, match="longer than 1 MiB"):
                api.read_jobset()
            api.read_jobset()
            with pytest.raises(ApiError, match="longer than 1 MiB"):
                list(api.watch())

    def test_an_account_folder_that_vanishes_is_trouble(self, api, tmp_path):
        (tmp_path / "token").unlink()
        with pytest.raises(ApiError, match="FileNotFoundError"):
            api.read_jobset()
