"""What the agent makes of its environment, and what it says where that is not enough."""

import pytest

from agent.settings import SettingsError, read_settings


@pytest.fixture
def env(tmp_path):
    (tmp_path / "namespace").write_text("ns\n")
    return {
        "JOBSET_NAME": "js",
        "POD_NAME": "pod",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "SERVICE_ACCOUNT_DIR": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }


def problems(env):
    with pytest.raises(SettingsError) as caught:
        read_settings(env)
    return str(caught.value)


def test_defaults(env):
    settings = read_settings(env)
    assert (settings.namespace, settings.exit_code) == ("ns", 1)
    assert (settings.worker, settings.probe_port, settings.probe_path) == (None, 8081, "/barrier-is-down")


def test_everything_set(env):
    settings = read_settings(
        {**env, "STARTUP_PROBE_PORT": "9000", "STARTUP_PROBE_PATH": "/go", "IN_PLACE_RESTART_EXIT_CODE": "7"}
    )
    assert (settings.probe_port, settings.probe_path, settings.exit_code) == (9000, "/go", 7)


def test_empty_is_unset(env):
    settings = read_settings({**env, "WORKER_COMMAND": "", "STARTUP_PROBE_PORT": "", "SHELL": ""})
    assert (settings.worker, settings.probe_port) == (None, 8081)


@pytest.mark.parametrize("name", ["JOBSET_NAME", "POD_NAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_what_is_missing_is_named_with_the_way_to_set_it(env, name):
    del env[name]
    assert f"{name} is not set: " in problems(env)


def test_all_problems_are_reported_at_once(env):
    text = problems({**env, "JOBSET_NAME": "", "POD_NAME": "", "STARTUP_PROBE_PORT": "x", "STARTUP_PROBE_PATH": "go"})
    assert len(text.splitlines()) == 4


def test_without_a_namespace_it_says_what_to_mount(env, tmp_path):
    (tmp_path / "namespace").unlink()
    text = problems(env)
    assert str(tmp_path / "namespace") in text
    assert "automountServiceAccountToken" in text
    (tmp_path / "namespace").write_text(" \n")
    assert "it is empty" in problems(env)


@pytest.mark.parametrize("probe", [{"STARTUP_PROBE_PORT": "8081"}, {"STARTUP_PROBE_PATH": "/barrier-is-down"}])
def test_worker_and_probe_exclude_each_other(env, probe):
    assert "exclude each other" in problems({**env, "WORKER_COMMAND": "true", **probe})


def test_a_worker_that_is_started_again_alone(env):
    assert not read_settings({**env, "WORKER_COMMAND": "true"}).worker_only
    assert read_settings({**env, "WORKER_COMMAND": "true", "RESTART_WORKER_ONLY": "true"}).worker_only
    assert "RESTART_WORKER_ONLY is 'yes': set true or false" in problems({**env, "RESTART_WORKER_ONLY": "yes"})
    assert "an agent beside the worker cannot" in problems({**env, "RESTART_WORKER_ONLY": "true"})


@pytest.mark.parametrize("name", ["IN_PLACE_RESTART_EXIT_CODE", "STARTUP_PROBE_PORT"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.0", " 1", "65536", "٣", "9" * 5000])
def test_numbers(env, name, value):
    assert f"{name} is" in problems({**env, name: value})


def test_a_program_needs_no_shell(env, tmp_path):
    settings = read_settings({**env, "PATH": str(tmp_path)}, ["train", "$(HOME) 'x'"])
    assert (settings.worker, settings.shell) == (("train", "$(HOME) 'x'"), "")


def test_a_program_excludes_the_other_ways(env):
    with pytest.raises(SettingsError, match="WORKER_COMMAND and a command after -- exclude each other"):
        read_settings({**env, "WORKER_COMMAND": "true", "SHELL": "/bin/sh"}, ["train"])
    with pytest.raises(SettingsError, match="a command after -- and STARTUP_PROBE_PORT exclude each other"):
        read_settings({**env, "STARTUP_PROBE_PORT": "8081"}, ["train"])


class TestShell:
    def test_the_one_of_the_environment(self, env):
        assert read_settings({**env, "WORKER_COMMAND": "true", "SHELL": "/bin/sh"}).worker == ("/bin/sh", "-c", "true")

    def test_by_its_name(self, env):
        assert read_settings({**env, "WORKER_COMMAND": "true", "SHELL": "sh"}).worker == ("/usr/bin/sh", "-c", "true")

    def test_without_one_it_is_bash(self, env):
        assert read_settings({**env, "WORKER_COMMAND": "true"}).worker == ("/usr/bin/bash", "-c", "true")

    def test_without_any_shell_the_error_says_what_to_set(self, env, tmp_path):
        assert "set SHELL to a shell" in problems({**env, "WORKER_COMMAND": "true", "PATH": str(tmp_path)})

    @pytest.mark.parametrize("shell", ["/nowhere/sh", "/tmp", "no-such-shell"])
    def test_one_that_cannot_be_run(self, env, shell):
        assert "cannot be run" in problems({**env, "WORKER_COMMAND": "true", "SHELL": shell})

    def test_none_is_needed_beside_a_worker(self, env, tmp_path):
        assert read_settings({**env, "PATH": str(tmp_path)}).worker is None
