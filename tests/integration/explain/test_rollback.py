"""`jobset rollback-check` on a real API server: what is concerned, and gates that are lifted."""

import json

from cli.main import main
from tests.support.cluster.requests import pods
from tests.support.explain.world import World
from tests.support.objects.jobsets import jobset, rjob


def gates(world: World) -> list[str]:
    return [
        gate["name"] for pod in pods(world.cluster, world.namespace) for gate in pod["spec"].get("schedulingGates", [])
    ]


def test_what_is_concerned_is_named_and_gates_are_lifted(waiting: World, capsys):
    def check(*flags: str) -> tuple[int, list[tuple[str, str, str]]]:
        config = f"--kubeconfig={waiting.cluster.kubeconfig}"
        code = main(["rollback-check", config, "-n", waiting.namespace, "-o", "json", *flags])
        found = json.loads(capsys.readouterr().out)["concerned"]
        return code, [(each["kind"], each["name"], each["path"]) for each in found]

    followers = [("Pod", "spec.schedulingGates[0]")] * 2
    code, found = check()
    assert (code, [(kind, path) for kind, _, path in found]) == (1, followers)
    assert len(gates(waiting)) == 2, "a check changes nothing"
    rules = [{"name": "oom", "action": "FailJobSet", "onExitCodes": {"operator": "In", "values": [137]}}]
    waiting.jobset(jobset(rjob(), name="ruled", failurePolicy={"rules": rules}))
    ruled = ("JobSet", "ruled", "spec.failurePolicy.rules[0].onExitCodes")
    assert check("--release") == (1, [ruled])
    assert gates(waiting) == []
    assert check() == (1, [ruled])
