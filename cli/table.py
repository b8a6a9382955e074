"""The table of all commands, grouped by users. The module of a command is imported only when the command is called."""

from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple


class Command(NamedTuple):
    """The summary of a command, and the function that registers it with its flags."""

    text: str
    module: str
    function: str

    def add(self, commands: object) -> None:
        """Register the command."""
        getattr(import_module(self.module), self.function)(commands)


GROUPS = {
    "for those who write JobSets": {
        "init": Command("print a manifest to begin with, or convert a PyTorchJob", "cli.init.cli", "add_init"),
        "validate": Command("check JobSet manifests without creating them", "cli.check.cli", "add_validate"),
        "render": Command("print the objects that a JobSet manifest leads to", "cli.check.cli", "add_render"),
        "schema": Command("print a JSON schema of manifests for editors", "cli.editor_schema", "add_schema"),
        "rule": Command("explain a rule of admission, with examples", "cli.rule.cli", "add_rule"),
        "explain": Command("say why a JobSet waits, or how it ended", "cli.explain.cli", "add_explain"),
        "logs": Command("print what the pods of a JobSet have written", "cli.operate.cli", "add_logs"),
        "wait": Command("wait until a JobSet is in a state", "cli.operate.cli", "add_wait"),
        "restart": Command("end the pods of a JobSet and start them again", "cli.operate.cli", "add_restart"),
        "scale": Command("change how many Jobs the ReplicatedJobs of a JobSet have", "cli.operate.cli", "add_scale"),
        "suspend": Command("end the pods of a JobSet and keep its Jobs", "cli.operate.cli", "add_suspend"),
        "resume": Command("let the pods of a suspended JobSet run", "cli.operate.cli", "add_resume"),
        "ui": Command("show JobSets on a page in the browser", "cli.ui.cli", "add_ui"),
    },
    "for administrators": {
        "manager": Command("run the webhooks and the reconcile loop", "cli.manager_command", "add_manager"),
        "policy": Command("judge JobSets by JobSetPolicies, and test policies", "cli.policy.cli", "add_policy"),
        "certs": Command("show the certificates of the webhooks", "cli.certificates.cli", "add_certs"),
        "webhooks": Command(
            "take the webhooks out of the way in an emergency, and put them back", "cli.break_glass.cli", "add_webhooks"
        ),
        "rollback-check": Command(
            "name what would behave otherwise under the Go JobSet", "cli.rollback.cli", "add_rollback_check"
        ),
    },
    "on this machine": {
        "demo": Command(
            "run a JobSet on a local control plane, as a story that is checked", "dev.demo.cli", "add_demo"
        ),
        "cluster": Command(
            "run a local Kubernetes control plane with fake or real nodes", "dev.cluster.cli", "add_cluster"
        ),
        "completion": Command("print the code that lets a shell complete jobset", "cli.completion", "add_completion"),
        "version": Command("print the version", "cli.main", "add_version"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def overview() -> Iterator[str]:
    """The lines of an overview of all commands, with a section for each group."""
    for title, group in GROUPS.items():
        yield f"\n{title}:"
        yield from (f"    {name:16}{command.text}" for name, command in group.items())
