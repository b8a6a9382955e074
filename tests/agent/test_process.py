"""The agent as it is shipped, as a process, with the rights of the example, against a real API server."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import yaml

from dev import local
from dev.bench.proc import cpu_seconds
from tests.support.cluster import agents
from tests.support.cluster.requests import kubectl, wait_for

pytestmark = pytest.mark.integration

ENDLESS = 'echo $$ > "$FOLDER/pid"; exec sleep 300'
MEMORY_MIB = 40
START_SECONDS = 1.0


def worker_pid(stage):
    return int(stage.file_text("pid"))


def wait_for_end(pid):
    wait_for(lambda: not agents.alive(pid), what=f"the end of process {pid}")


def probe(port, path="/barrier-is-down"):
    """HTTP status of the probe; None if nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return None


class TestEconomy:
    def test_it_starts_in_less_than_a_second_of_processor_time_and_stays_small(self, stage, capsys):
        stage.jobset()
        agent = stage.agent(ENDLESS)
        agent.wait_log("reported attempt 0")
        seconds, spent = time.monotonic() - agent.started, cpu_seconds(agent.popen.pid)
        stage.attempts(current=0)
        worker_pid(stage)
        for number in range(20):
            stage.annotate(state=str(number))
        agent.wait_log("the barrier is down")
        rss = agent.rss_kib() / 1024
        with capsys.disabled():
            sys.stdout.write(
                f"\nagent: {seconds:.2f} s from start to report, {spent:.2f} of the processor, VmRSS {rss:.1f} MiB\n"
            )
        assert spent < START_SECONDS
        assert rss < MEMORY_MIB

    @pytest.mark.slow
    def test_a_set_near_the_size_limit_does_not_make_it_large(self, stage, capsys):
        """Half a megabyte of manifest, and as much again in what the API server notes about its fields."""
        body = agents.example()[3]
        body["metadata"] = {"name": "js"}
        pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        pod["containers"][0]["env"] += [{"name": f"VARIABLE_{n}", "value": "x" * 50} for n in range(5000)]
        stage.create(body)
        agent = stage.agent(ENDLESS)
        agent.wait_log("reported attempt 0")
        for number in range(3):
            stage.annotate(state=str(number))
        stage.attempts(current=0)
        worker_pid(stage)
        rss = agent.rss_kib() / 1024
        with capsys.disabled():
            sys.stdout.write(f"\nagent of a set of {len(json.dumps(stage.get())) >> 10} KiB: VmRSS {rss:.1f} MiB\n")
        assert rss < MEMORY_MIB


class TestMainContainer:
    def test_one_attempt_from_report_to_end(self, stage):
        stage.jobset()
        agent = stage.agent(ENDLESS)
        wait_for(lambda: stage.reported_attempt() == "0")
        managers = [m["manager"] for m in stage.pod()["metadata"]["managedFields"]]
        assert "in-place-restart-agent" in managers
        assert not (stage.folder / "pid").exists(), "the barrier is up"
        stage.attempts(current=0)
        pid = worker_pid(stage)
        assert agents.alive(pid)
        stage.attempts(current=0, previous=0)
        assert agent.ended() == 1
        wait_for_end(pid)

    def test_the_next_attempt_waits_for_its_own_turn(self, stage):
        stage.jobset(previous=2, current=2)
        agent = stage.agent(ENDLESS, IN_PLACE_RESTART_EXIT_CODE="77")
        wait_for(lambda: stage.reported_attempt() == "3")
        stage.attempts(previous=2, current=3)
        worker_pid(stage)
        stage.attempts(previous=3, current=3)
        assert agent.ended() == 77

    def test_started_again_with_the_same_attempt_it_changes_nothing(self, stage):
        stage.jobset(previous=0, current=0)
        first = stage.agent(ENDLESS)
        first.wait_log("reported attempt 1")
        first.tell(signal.SIGKILL)
        first.ended()
        before = stage.pod()["metadata"]["resourceVersion"]
        stage.agent(ENDLESS).wait_log("reported attempt 1")
        assert stage.pod()["metadata"]["resourceVersion"] == before

    def test_a_foreign_value_is_overwritten(self, stage):
        kubectl(stage.cluster, "annotate", "pod", "pod", f"{agents.ANNOTATION}=junk", namespace=stage.namespace)
        stage.jobset()
        stage.agent(ENDLESS).wait_log("reported attempt 0")
        assert stage.reported_attempt() == "0"

    @pytest.mark.parametrize(
        ("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    )
    def test_it_ends_with_the_workers_exit_code(self, stage, command, code):
        stage.jobset(current=0, strategy="Recreate")
        assert stage.agent(command).ended() == code

    def test_nothing_that_the_worker_started_survives(self, stage):
        escape = 'setsid sh -c \'echo $$ > "$FOLDER/escaped"; trap "" TERM; sleep 300; sleep 300\' &'
        stage.jobset(strategy="Recreate")
        agent = stage.agent(f'{escape} while ! [ -s "$FOLDER/escaped" ]; do sleep 0.01; done; exit 3')
        assert agent.ended() == 3
        wait_for_end(int(stage.file_text("escaped")))

    def test_an_attempt_that_is_over_takes_all_processes_along(self, stage):
        tree = '(setsid sh -c \'echo $$ > "$FOLDER/deep"; trap "" TERM; sleep 300; :\' & wait) &'
        stage.jobset()
        agent = stage.agent(f'{tree} trap "" TERM; echo $$ > "$FOLDER/pid"; wait')
        agent.wait_log("reported attempt 0")
        stage.attempts(current=0)
        pids = [worker_pid(stage), int(stage.file_text("deep"))]
        stage.attempts(current=0, previous=0)
        assert agent.ended() == 1
        for pid in pids:
            wait_for_end(pid)

    @pytest.mark.parametrize("ignored", [(), ("HUP", "QUIT", "USR1")], ids=["none", "hup-quit-usr1"])
    def test_a_worker_gets_its_default_signals(self, stage, ignored):
        """Whatever the agent's parent ignores: nohup ignores SIGHUP, a shell without job control SIGQUIT."""
        stage.jobset(strategy="Recreate")
        agent = stage.agent('grep -E "SigBlk|SigIgn" /proc/self/status > "$FOLDER/signals"', ignored=ignored)
        assert agent.ended() == 0
        masks = dict(line.split() for line in stage.file_text("signals").splitlines())
        own = 0b11 << 31  # signals 32 and 33 belong to the C library
        assert {name: int(mask, 16) & ~own for name, mask in masks.items()} == {"SigBlk:": 0, "SigIgn:": 0}

    def test_a_shell_that_vanishes_is_reported(self, stage, tmp_path):
        shell = tmp_path / "shell"
        shell.write_text("not a program")
        shell.chmod(0o755)
        stage.jobset(strategy="Recreate")
        agent = stage.agent("true", SHELL=str(shell))
        assert agent.ended() == 1
        assert f"cannot start the worker with {shell}" in agent.log()


class TestSignals:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_at_the_barrier_it_ends_at_once(self, stage, number, code):
        stage.jobset()
        agent = stage.agent(ENDLESS)
        agent.wait_log("reported attempt 0")
        agent.tell(number)
        assert agent.ended(5) == code

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_the_worker_gets_the_signal_and_its_time(self, stage, number, code):
        worker = "\n".join(
            [
                "import signal, sys, time",
                "def end(*_):",
                "    time.sleep(1)",
                "    print('saved', file=open(sys.argv[1] + '/saved', 'w'), flush=True)",
                "    sys.exit(0)",
                f"signal.signal({int(number)}, end)",
                "print('up', file=open(sys.argv[1] + '/up', 'w'), flush=True)",
                "signal.pause()",
            ]
        )
        stage.jobset(strategy="Recreate")
        # Not the shell itself: the shell ends at once, and what it had started is still waited for.
        agent = stage.agent('python3 -c "$PROGRAM" "$FOLDER"; true', PROGRAM=worker)
        stage.file_text("up")
        agent.tell(number)
        assert agent.ended() == code
        assert (stage.folder / "saved").read_text() == "saved\n"

    def test_the_end_of_the_attempt_does_not_cut_short_a_worker_that_is_ending(self, stage):
        stage.jobset()
        agent = stage.agent(
            'trap \'sleep 2; echo saved > "$FOLDER/saved"; exit 0\' TERM; echo $$ > "$FOLDER/pid"; sleep 300 & wait'
        )
        agent.wait_log("reported attempt 0")
        stage.attempts(current=0)
        worker_pid(stage)
        agent.tell(signal.SIGTERM)
        agent.wait_log("SIGTERM: waiting for the worker to end")
        stage.attempts(current=0, previous=0)
        assert agent.ended() == 143
        assert (stage.folder / "saved").exists()


class TestSidecar:
    @pytest.fixture
    def port(self):
        return local.free_port()

    def test_the_probe_fails_until_the_barrier_is_down(self, stage, port):
        stage.jobset()
        agent = stage.agent(STARTUP_PROBE_PORT=str(port))
        wait_for(lambda: stage.reported_attempt() == "0")
        assert probe(port) == 503
        stage.attempts(current=0)
        wait_for(lambda: probe(port) == 200)
        assert probe(port, "/else") == 404
        stage.attempts(current=0, previous=0)
        assert agent.ended() == 1

    def test_path_of_ones_own(self, stage, port):
        stage.jobset(strategy="Recreate")
        agent = stage.agent(STARTUP_PROBE_PORT=str(port), STARTUP_PROBE_PATH="/go")
        wait_for(lambda: probe(port, "/go") == 200)
        assert probe(port) == 404
        agent.tell(signal.SIGTERM)
        assert agent.ended(5) == 143

    def test_a_port_that_is_taken_is_reported_at_once(self, stage, port):
        stage.jobset()
        stage.agent(STARTUP_PROBE_PORT=str(port)).wait_log("reported")
        second = stage.agent(STARTUP_PROBE_PORT=str(port))
        assert second.ended() == 1
        assert "set STARTUP_PROBE_PORT to a port that is free" in second.log()


class TestBypass:
    def test_other_strategies_start_at_once_and_report_nothing(self, stage):
        stage.jobset(strategy="BlockingRecreate", previous=5, current=5)
        agent = stage.agent(ENDLESS)
        worker_pid(stage)
        assert agent.running
        assert stage.reported_attempt() is None

    def test_a_set_that_disables_in_place_restart_starts_at_once(self, stage):
        stage.jobset(annotations={"jobset.sigs.k8s.io/disable-in-place-restart": ""}, previous=5, current=5)
        stage.agent(ENDLESS)
        worker_pid(stage)
        assert stage.reported_attempt() is None

    def test_it_can_be_disabled_while_pods_wait(self, stage):
        stage.jobset()
        agent = stage.agent(ENDLESS)
        agent.wait_log("reported attempt 0")
        stage.annotate(disable_in_place_restart="")
        worker_pid(stage)
        stage.attempts(current=3, previous=3)
        stage.annotate(more="x")
        assert agent.running, "no attempt ends while it is disabled"

    def test_enabled_again_the_running_worker_takes_part(self, stage):
        stage.jobset(annotations={"jobset.sigs.k8s.io/disable-in-place-restart": ""})
        agent = stage.agent(ENDLESS)
        pid = worker_pid(stage)
        stage.annotate(disable_in_place_restart=None)
        wait_for(lambda: stage.reported_attempt() == "0")
        assert agents.alive(pid)
        stage.attempts(current=0, previous=0)
        assert agent.ended() == 1


class TestTheApiServer:
    def test_a_set_that_is_not_there_yet_is_waited_for(self, stage):
        agent = stage.agent(ENDLESS)
        time.sleep(1)
        assert agent.running
        stage.jobset()
        agent.wait_log("reported attempt 0")
        stage.delete()
        stage.jobset(current=0)
        worker_pid(stage)

    def test_unreachable_at_start(self, stage, line):
        line.cut()
        stage.jobset()
        agent = stage.agent(ENDLESS, port=line.port)
        agent.wait_log("trying again")
        line.repair()
        wait_for(lambda: stage.reported_attempt() == "0")

    def test_away_while_watching(self, stage, line):
        stage.jobset()
        agent = stage.agent(ENDLESS, port=line.port)
        agent.wait_log("reported attempt 0")
        line.cut()
        agent.wait_log("watching jobset js")
        stage.attempts(current=0)
        assert not (stage.folder / "pid").exists()
        line.repair()
        pid = worker_pid(stage)
        line.cut()
        stage.attempts(current=0, previous=0)
        time.sleep(1)
        assert agents.alive(pid), "what cannot be seen changes nothing"
        line.repair()
        assert agent.ended() == 1

    def test_a_token_that_was_rotated_is_read_again(self, stage, line):
        stage.jobset()
        token = stage.account / "token"
        good = token.read_text()
        token.write_text("expired")
        agent = stage.agent(ENDLESS, port=line.port)
        agent.wait_log("HTTP 401")
        token.write_text(good)
        agent.wait_log("reported attempt 0")

    def test_missing_rights_are_named(self, stage):
        stage.jobset()
        kubectl(stage.cluster, "delete", "rolebinding", agents.ACCOUNT, namespace=stage.namespace)
        agent = stage.agent(ENDLESS)
        agent.wait_log("patch on pods and get, list, watch on jobsets.jobset.x-k8s.io")
        assert "HTTP 403" in agent.log()
        agents.rights(stage.cluster, stage.namespace)
        agent.wait_log("reported attempt 0")

    def test_a_report_that_is_refused_is_sent_again(self, stage):
        stage.jobset()
        agent = stage.agent(ENDLESS, POD_NAME="other")
        agent.wait_log("reporting attempt 0 on pod other: HTTP")
        stage.attempts(current=0)
        time.sleep(1)
        assert not (stage.folder / "pid").exists(), "no worker runs whose attempt nobody knows"
        assert agent.running


def test_help_teaches_and_arguments_are_refused(agent_file):
    def run(*args):
        command = ["python3", "-IBS", agent_file, *args]
        return subprocess.run(  # noqa: S603 - what is tested
            command, capture_output=True, text=True, check=False, timeout=20, env={"PATH": os.environ["PATH"]}
        )

    shown = run("--help")
    assert "-- COMMAND" in shown.stdout
    assert shown.returncode == 0
    for name in ("JOBSET_NAME", "WORKER_COMMAND", "STARTUP_PROBE_PORT", "IN_PLACE_RESTART_EXIT_CODE", "SHELL"):
        assert name in shown.stdout
    assert run("--port=1").returncode == 2
    assert run("--").returncode == 2
    missing = run()
    assert missing.returncode == 1
    assert "JOBSET_NAME is not set: set it to" in missing.stderr


def test_a_program_gets_its_arguments_as_they_are(agent_file, tmp_path):
    agent = agents.Process(
        agent_file, tmp_path / "log", {"IN_PLACE_RESTART": "false"}, arguments=["printf", "%s;", "$HOME '", ""]
    )
    assert agent.ended() == 0
    assert "$HOME ';;" in agent.log()


def test_a_program_that_is_not_there_is_reported(agent_file, tmp_path):
    agent = agents.Process(agent_file, tmp_path / "log", {"IN_PLACE_RESTART": "false"}, arguments=["no-such-program"])
    assert agent.ended() == 1
    assert "cannot start the worker with no-such-program: No such file or directory" in agent.log()


def test_the_sidecar_example_is_accepted_by_the_api_server(stage):
    """Container restart rules are for the API server to judge; the Job it would make is tried."""
    text = (agents.ROOT / "examples" / "in-place-restart-sidecar.yaml").read_text()
    template = list(yaml.safe_load_all(text))[3]["spec"]["replicatedJobs"][0]["template"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "try"}, "spec": template["spec"]}
    kubectl(stage.cluster, "create", "--dry-run=server", "-f", "-", namespace=stage.namespace, stdin=json.dumps(job))
