"""The agent that is put into pods for restarts in place (docs/reference/in-place-restart.md#the-agent-in-every-pod)."""

import copy

import pytest

from api.children import build_job
from api.layout import layout_of
from api.restart_agent import reporting_container
from tests.support.objects.stored_sets import jobset, rjob

AGENT = {"image": "agent:v1"}
MAIN = AGENT | {"mode": "MainContainer"}


def group(name="workers", **pod):
    entry = rjob(name)
    spec = entry["template"]["spec"].setdefault("template", {}).setdefault("spec", {})
    spec.update({"containers": [{"name": "main", "image": "train", "command": ["train", "--lr", "$(LR)"]}], **pod})
    return entry


def pods(*groups, agent=AGENT, strategy="InPlaceRestart"):
    """The pod spec of the first Job of each ReplicatedJob."""
    js = jobset(*groups, failurePolicy={"restartStrategy": strategy, "agent": agent})
    layout = layout_of(js)
    first = [next(iter(jobs.positions(js.metadata.name))) for jobs in layout.ranges]
    jobs = [build_job(js, layout, jobs, position) for jobs, position in zip(layout.ranges, first, strict=True)]
    return [job["spec"]["template"]["spec"] for job in jobs]


def test_a_sidecar_starts_after_the_init_containers_of_the_user():
    [pod] = pods(group(initContainers=[{"name": "download"}]))
    download, agent = pod["initContainers"]
    assert (download, agent["image"], agent["restartPolicy"]) == ({"name": "download"}, "agent:v1", "Always")
    assert agent["startupProbe"]["httpGet"]["port"] == 8081
    assert {env["name"]: env.get("value") for env in agent["env"]} == {
        "JOBSET_NAME": None,
        "POD_NAME": None,
        "STARTUP_PROBE_PORT": "8081",
    }


def test_beside_a_sidecar_the_command_stays_and_a_failure_restarts_the_pod():
    [pod] = pods(group())
    [worker] = pod["containers"]
    assert (worker["command"], worker["restartPolicy"]) == (["train", "--lr", "$(LR)"], "Never")
    assert worker["restartPolicyRules"] == [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}
    ]


def test_rules_of_the_user_are_kept():
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    worker = {"name": "main", "restartPolicy": "OnFailure", "restartPolicyRules": rules}
    [pod] = pods(group(containers=[worker]))
    assert pod["containers"] == [worker | {"terminationMessagePolicy": "FallbackToLogsOnError"}]


def test_the_port_of_the_probe_is_that_of_the_agent():
    [pod] = pods(group(), agent=AGENT | {"probePort": 9000})
    [agent] = pod["initContainers"]
    assert agent["startupProbe"]["httpGet"]["port"] == 9000
    assert {"name": "STARTUP_PROBE_PORT", "value": "9000"} in agent["env"]


def test_a_copy_runs_the_command_of_the_first_container():
    other = {"name": "logs", "image": "logs"}
    env = [{"name": "LR", "value": "1"}]
    worker = {"name": "main", "image": "train", "command": ["train"], "args": ["$(LR)"], "env": env}
    [pod] = pods(group(containers=[worker, other], volumes=None), agent=MAIN)
    [install] = pod["initContainers"]
    main, logs = pod["containers"]
    assert install["command"] == ["cp", "/agent.pyz", "/jobset-agent/"]
    assert main["command"] == ["python3", "-IBS", "/jobset-agent/agent.pyz", "--", "train"]
    assert main["args"] == ["$(LR)"], "the kubelet replaces what it did before"
    assert main["env"][0] == env[0]
    assert main["volumeMounts"] == [{"name": "jobset-agent", "mountPath": "/jobset-agent", "readOnly": True}]
    assert pod["volumes"] == [{"name": "jobset-agent", "emptyDir": {}}]
    assert logs == other


def test_the_image_of_the_agent_can_be_a_volume():
    worker = {"name": "main", "image": "train", "command": ["train"]}
    [copied] = pods(group(containers=[worker], volumes=None), agent=MAIN)
    [mounted] = pods(group(containers=[worker], volumes=None), agent=MAIN | {"imageVolume": True})
    assert mounted["containers"] == copied["containers"], "the agent is at the same path"
    assert mounted["volumes"] == [{"name": "jobset-agent", "image": {"reference": "agent:v1"}}]
    assert "initContainers" not in mounted
    [sidecar] = pods(group(), agent=AGENT | {"imageVolume": True})
    assert sidecar == pods(group())[0], "there is nothing to mount beside a worker"


HOLDS = {"name": "main", "image": "train", "command": ["/pause"]}


@pytest.mark.parametrize("more", [{}, {"imageVolume": True}], ids=["copied", "volume"])
def test_spares_have_the_image_of_an_agent_in_the_main_container(more):
    spare = group("spare", containers=[HOLDS]) | {"spareFor": "workers"}
    worker, held = pods(group(volumes=None), spare, agent=MAIN | more)
    assert held["containers"] == [HOLDS]
    assert held["volumes"] == worker["volumes"]
    assert held.get("initContainers") == worker.get("initContainers")


def test_spares_have_the_image_of_a_sidecar_and_hold_what_it_takes():
    spare = group("spare", containers=[HOLDS], initContainers=[{"name": "beside"}]) | {"spareFor": "workers"}
    worker, held = pods(group(), spare)
    assert held["containers"] == [HOLDS]
    assert held["volumes"] == [{"name": "jobset-agent", "image": {"reference": "agent:v1"}}]
    beside, waiting = held["initContainers"]
    [sidecar] = worker["initContainers"]
    assert beside == {"name": "beside"}
    kept = ("name", "resources", "securityContext", "restartPolicy")
    assert waiting == {key: sidecar[key] for key in kept} | {"image": "train", "command": ["/pause"]}


def test_the_container_whose_agent_reports_how_its_worker_failed():
    asking = {"name": "b", "image": "b", "env": [{"name": "RESTART_FAILED_WORKER", "value": "true"}]}
    silent = {"name": "a", "image": "a", "command": ["a"], "env": [{"name": "RESTART_FAILED_WORKER", "value": "false"}]}
    own = group(containers=[silent, asking], volumes=None)

    def name(agent, strategy="InPlaceRestart", entry=own):
        js = jobset(entry, failurePolicy={"restartStrategy": strategy, "agent": agent})
        return reporting_container(js, js.spec.replicated_jobs[0])

    assert name(None) == name(MAIN) == "b"
    assert name(MAIN, entry=group(containers=[{"name": "a", "image": "a", "command": ["a"]}], volumes=None)) == "a"
    assert name(AGENT, entry=group(containers=[silent], volumes=None)) == ""
    assert name(MAIN, "Recreate") == ""


@pytest.mark.parametrize("agent", [AGENT, MAIN], ids=["sidecar", "main-container"])
def test_it_meets_the_restricted_pod_security_standard(agent):
    [pod] = pods(group(), agent=agent)
    security = pod["initContainers"][-1]["securityContext"]
    assert security["runAsNonRoot"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize(
    ("agent", "strategy"), [(None, "InPlaceRestart"), (AGENT, "Recreate"), (MAIN, "BlockingRecreate")]
)
def test_pods_stay_as_they_are_without_both_fields(agent, strategy):
    entry = group()
    wanted = copy.deepcopy(entry["template"]["spec"]["template"]["spec"])
    [pod] = pods(entry, agent=agent, strategy=strategy)
    assert {key: pod[key] for key in wanted} == wanted
    assert "initContainers" not in pod


def test_a_template_that_uses_its_name_is_left_alone():
    [pod] = pods(group(initContainers=[{"name": "jobset-agent", "image": "mine"}]))
    assert pod["initContainers"] == [{"name": "jobset-agent", "image": "mine"}]
