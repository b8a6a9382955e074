"""The command line: one program, `jobset`, with a command for each task. docs/cli.md lists them.

Exit codes: 0 done, 1 failed (one clear message on standard error), 2 wrong usage; for `validate` and `render` see
cli/check/cli.py, for `wait` cli/operate/cli.py. The manager takes the Go manager's flags, in both of Go's spellings
(`-flag` and `--flag`), so that deployments can be switched over unchanged.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from api.features import FeatureGateError
from app import version
from app.logs import LogSettingsError
from app.logs import configure as configure_logs
from app.logs import parse as parse_log_flags
from app.settings import SettingsError
from app.terminal import escaped_streams
from cli.break_glass.cli import add_webhooks
from cli.certificates.cli import add_certs
from cli.check.cli import add_render, add_validate
from cli.commands import Commands, Parser, add_command
from cli.completion import add_completion, answer, answer_kubectl
from cli.editor_schema import add_schema
from cli.explain.cli import add_explain
from cli.manager_flags import FlagError, add_flags, choose
from cli.operate.cli import add_logs, add_restart, add_resume, add_suspend, add_wait
from cli.policy.cli import add_policy
from cli.rollback.cli import add_rollback_check
from cli.ui.cli import add_ui

MANAGER_EXAMPLES = """examples:
  %(prog)s                                           in a cluster: all defaults
  %(prog)s --kubeconfig=$HOME/.kube/config --config=manager.yaml
  %(prog)s --controllers=false                       only the admission webhooks
  %(prog)s --webhooks=false --leader-elect=false     only the reconcile loop
  %(prog)s --feature-gates=RestartJob=true
  %(prog)s --check-config=manager.yaml               check a file and print what is in force; run nothing

The configuration file has apiVersion config.jobset.x-k8s.io/v1alpha1 and kind Configuration; given flags win."""


INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    manager = arguments[:1] == ["manager"]
    if manager:
        arguments[1:] = [_double_dash(argument) for argument in arguments[1:]]
    parser = _parser(local=not manager)
    answer(parser)
    with escaped_streams():
        parsed = parser.parse_args(arguments)
        try:
            code: int = parsed.handler(parsed)
        except KeyboardInterrupt:
            return INTERRUPTED
        return code


def complete_for_kubectl() -> int:
    """Say what may follow `kubectl jobset` and the words of the command line; gives the exit code."""
    print(answer_kubectl(_parser(local=True), sys.argv[1:]), end="")
    return 0


def _double_dash(argument: str) -> str:
    """Go accepts -flag for --flag; -h stays what it is."""
    single = argument.startswith("-") and not argument.startswith("--") and len(argument) > 2
    return f"-{argument}" if single else argument


def _parser(*, local: bool) -> argparse.ArgumentParser:
    """All commands; `local` says whether those that run a control plane on this machine are among them."""
    parser: argparse.ArgumentParser = Parser(
        prog="jobset",
        description="JobSet for Kubernetes: run sets of Jobs as one.",
        epilog="`jobset COMMAND --help` says more.",
    )
    parser.add_argument("--version", action="version", version=version.current(), help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (
        add_manager,
        add_validate,
        add_render,
        add_schema,
        add_policy,
        add_explain,
        add_ui,
        add_logs,
        add_wait,
        add_restart,
        add_suspend,
        add_resume,
        add_rollback_check,
        add_webhooks,
        add_certs,
        *(_local() if local else ()),
        add_completion,
        add_version,
    ):
        add(commands)
    return parser


def _local() -> tuple[Callable[[Commands], None], ...]:
    """The commands that run a control plane on this machine: a manager would keep their memory for nothing."""
    from cli.demo_command import add_demo  # noqa: PLC0415 (as above)
    from dev.cluster.cli import add_cluster  # noqa: PLC0415 (as above)

    return add_cluster, add_demo


def add_version(commands: Commands) -> None:
    """Register `version`."""
    parser = commands.add_parser("version", help="print the version")
    parser.set_defaults(handler=_version)


def add_manager(commands: Commands) -> None:
    """Register `manager`."""
    parser = add_command(
        commands,
        "manager",
        "run the webhooks and the reconcile loop",
        MANAGER_EXAMPLES,
        "Run the admission webhooks and, on the replica that holds the lease, the reconcile loop.",
    )
    add_flags(parser)
    parser.set_defaults(handler=_manager)


def _manager(parsed: argparse.Namespace) -> int:
    # Half a second of imports that other commands need not pay.
    from app.manager.options import Options, StartError  # noqa: PLC0415
    from app.manager.process import main as run_manager  # noqa: PLC0415
    from cli.config_check import render_config  # noqa: PLC0415

    try:
        chosen = choose(parsed, parsed.check_config or parsed.config)
        logs = parse_log_flags(
            devel=parsed.zap_devel,
            encoder=parsed.zap_encoder,
            level=parsed.zap_log_level,
            stacktrace_level=parsed.zap_stacktrace_level,
            time_encoding=parsed.zap_time_encoding,
        )
        if parsed.check_config:
            print(render_config(chosen, parsed.output), end="")
            return 0
        if parsed.output != "table":
            raise FlagError("flag --output: it is the form of --check-config, which is not given")
        if not (parsed.controllers or parsed.webhooks):
            raise FlagError("flags --controllers and --webhooks: both are false, so there is nothing to run")
        configure_logs(logs)
        run_manager(Options(chosen.settings, chosen.gates, parsed.kubeconfig, parsed.controllers, parsed.webhooks))
    except (SettingsError, FeatureGateError, LogSettingsError, StartError) as error:
        print(f"jobset manager: {error}", file=sys.stderr)
        return 1 if isinstance(error, StartError) or type(error) is SettingsError else 2
    return 0


def _version(_: argparse.Namespace) -> int:
    print(version.current())
    return 0
