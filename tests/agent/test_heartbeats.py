"""What a heartbeat is, how long none has come, and which lines the pattern sees."""

import itertools
import os
import re
import signal
import time
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.heartbeats import LONGEST_GAP, MATCH_SECONDS, HeartbeatFile, Matcher, Silence
from agent.log import LONGEST_LINE, Lines


@pytest.fixture(autouse=True)
def _signals_as_before():
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


class TestSilence:
    def test_the_first_heartbeat_has_its_own_limit(self):
        silence = Silence(first_deadline=3, deadline=1, now=100)
        assert [silence.update(now, heartbeat=False) for now in (101, 102, 103)] == [False, False, True]

    def test_after_a_heartbeat_the_deadline_counts(self):
        silence = Silence(first_deadline=30, deadline=2, now=0)
        assert not silence.update(1, heartbeat=True)
        assert [silence.update(now, heartbeat=False) for now in (2, 3)] == [False, True]

    def test_each_heartbeat_begins_the_time_again(self):
        silence = Silence(first_deadline=2, deadline=2, now=0)
        assert not any(silence.update(now / 2, heartbeat=now % 3 == 0) for now in range(1, 100))

    def test_a_stop_of_the_agent_is_no_hang_and_a_hang_after_it_is_found(self, capsys):
        silence = Silence(first_deadline=2, deadline=2, now=0)
        assert not silence.update(1.5, heartbeat=False)
        assert not silence.update(1.5 + LONGEST_GAP * 1000, heartbeat=False)
        assert "was stopped for 5000 s" in capsys.readouterr().err
        resumed = 1.5 + LONGEST_GAP * 1000
        assert [silence.update(resumed + more, heartbeat=False) for more in (1, 2)] == [False, True]


class TestFile:
    def test_a_change_counts_and_nothing_else(self, tmp_path):
        path = tmp_path / "beat"
        path.write_text("of an earlier attempt")
        file = HeartbeatFile(path)
        assert not file.has_changed()
        os.utime(path, (1, 1))
        assert file.has_changed(), "to whatever time: clocks are not compared"
        assert not file.has_changed()
        new = tmp_path / "new"
        new.touch()
        new.rename(path)
        assert file.has_changed()

    def test_a_file_that_comes_goes_and_comes_again(self, tmp_path, capsys):
        path = tmp_path / "folder" / "beat"
        file = HeartbeatFile(path)
        assert not file.has_changed()
        assert file.problem == f"{path}: No such file or directory"
        path.parent.mkdir()
        path.touch()
        assert file.has_changed()
        assert file.problem == ""
        path.unlink()
        assert not file.has_changed()
        path.touch()
        assert file.has_changed()
        assert capsys.readouterr().err.count("no heartbeat can come yet") == 2

    def test_a_folder_is_no_heartbeat(self, tmp_path, capsys):
        file = HeartbeatFile(tmp_path)
        (tmp_path / "more").touch()
        assert not file.has_changed()
        assert capsys.readouterr().err.count("neither a file nor a named pipe") == 1

    def test_a_pipe_is_read(self, tmp_path):
        path = tmp_path / "beat"
        os.mkfifo(path)
        file = HeartbeatFile(path)
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        assert not file.has_changed(), "a writer that writes nothing"
        for _ in range(3):
            os.write(writer, b"x" * 60_000)
            assert file.has_changed()
            assert not file.has_changed()
        os.close(writer)
        assert not file.has_changed()

    def test_a_pipe_that_is_made_again_is_opened_again(self, tmp_path):
        path = tmp_path / "beat"
        os.mkfifo(path)
        file = HeartbeatFile(path)
        os.mkfifo(tmp_path / "new")
        (tmp_path / "new").rename(path)
        assert not file.has_changed()
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(writer, b"x")
        os.close(writer)
        assert file.has_changed()


class TestLines:
    def test_lines_end_with_a_newline_or_a_carriage_return(self):
        lines = Lines()
        assert lines.cut(b"one\ntwo\r\n 3%\r 4%") == [b"one", b"two", b" 3%"]
        assert lines.cut(b"0%\n") == [b" 4%0%"]

    def test_of_a_line_without_end_only_the_start_is_kept(self):
        lines = Lines()
        found = [line for _ in range(100) for line in lines.cut(b"x" * 65536)]
        assert found == [b"x" * LONGEST_LINE]
        assert lines.cut(b"rest\nnext\n") == [b"next"]

    @given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
    def test_the_pieces_in_which_it_comes_do_not_matter(self, data, cuts):
        places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        whole, pieces = Lines(), Lines()
        with mock.patch("agent.log.LONGEST_LINE", 16):
            found = [line for start, end in itertools.pairwise(places) for line in pieces.cut(data[start:end])]
            assert found == whole.cut(data)


class TestMatcher:
    def test_any_line_will_do(self):
        matcher = Matcher(re.compile(rb"step=\d+"))
        assert matcher.matches_any([b"loading", b"[rank0] step=17 loss=2.5"])
        assert not matcher.matches_any([b"loading", b"step="])

    def test_a_pattern_that_takes_for_ever_is_given_up(self, capsys):
        matcher = Matcher(re.compile(rb"(a+)+$"))
        before = time.monotonic()
        assert not matcher.matches_any([b"a" * 64 + b"!"])
        assert time.monotonic() - before < MATCH_SECONDS * 10
        assert "write a pattern without repeats of repeats" in capsys.readouterr().err
        assert matcher.matches_any([b"aaa"]), "the next lines are looked at"
