"""The table of all commands, grouped by users. The module of a command is imported only when the command is called."""

from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple


class Command(NamedTuple):
    """The summary of a command, and the module with the function `add_NAME` that registers the command."""

    summary: str
    module: str


GROUPS = {
    "for those who write JobSets": {
        "init": Command("print a manifest to begin with, or convert a PyTorchJob", "cli.init.cli"),
        "validate": Command("check JobSet manifests without creating them", "cli.check.cli"),
        "render": Command("print the objects that a JobSet manifest leads to", "cli.check.cli"),
        "schema": Command("print a JSON schema of manifests for editors", "cli.editor_schema"),
        "rule": Command("explain a rule of admission, with examples", "cli.rule.cli"),
        "explain": Command("say why a JobSet waits, or how it ended", "cli.explain.cli"),
        "logs": Command("print what the pods of a JobSet have written", "cli.operate.cli"),
        "wait": Command("wait until a JobSet is in a state", "cli.operate.cli"),
        "restart": Command("end the pods of a JobSet and start them again", "cli.operate.cli"),
        "scale": Command("change how many Jobs the ReplicatedJobs of a JobSet have", "cli.operate.cli"),
        "suspend": Command("end the pods of a JobSet and keep its Jobs", "cli.operate.cli"),
        "resume": Command("let the pods of a suspended JobSet run", "cli.operate.cli"),
        "ui": Command("show JobSets on a page in the browser", "cli.ui.cli"),
    },
    "for administrators": {
        "manager": Command("run the webhooks and the reconcile loop", "cli.manager_command"),
        "policy": Command("judge JobSets by JobSetPolicies, and test policies", "cli.policy.cli"),
        "certs": Command("show the certificates of the webhooks", "cli.certificates.cli"),
        "webhooks": Command(
            "take the webhooks out of the way in an emergency, and put them back", "cli.break_glass.cli"
        ),
        "rollback-check": Command("name what would behave otherwise under the Go JobSet", "cli.rollback.cli"),
    },
    "on this machine": {
        "demo": Command("run a JobSet on a local control plane, as a story that is checked", "dev.demo.cli"),
        "cluster": Command("run a local Kubernetes control plane with fake or real nodes", "dev.cluster.cli"),
        "completion": Command("print the code that lets a shell complete jobset", "cli.completion"),
        "version": Command("print the version", "cli.main"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def register(commands: object, name: str) -> None:
    """Register a command with its flags."""
    getattr(import_module(COMMANDS[name].module), f"add_{name.replace('-', '_')}")(commands)


def overview() -> Iterator[str]:
    """The lines of an overview of all commands, with a section for each group."""
    for title, group in GROUPS.items():
        yield f"\n{title}:"
        yield from (f"    {name:16}{command.summary}" for name, command in group.items())
