"""The command line: `jobset manager`, `validate`, `render`, `explain`, `cluster`, `demo`, `version`.

Exit codes: 0 done, 1 failed (one clear message on standard error), 2 wrong usage; for `validate` and `render` see
app/check/cli.py. The manager takes the Go manager's flags, in both of Go's spellings (`-flag` and `--flag`), so
that deployments can be switched over unchanged.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from api.features import FeatureGateError, FeatureGates, parse_feature_gates
from app import version
from app.check.cli import add_render, add_validate
from app.commands import Commands
from app.explain.cli import add_explain
from app.logs import LogSettingsError
from app.logs import configure as configure_logs
from app.logs import parse as parse_log_flags
from app.settings import Settings, SettingsError, load

MANAGER_EXAMPLES = """examples:
  %(prog)s                                           in a cluster: all defaults
  %(prog)s --kubeconfig=$HOME/.kube/config --config=manager.yaml
  %(prog)s --controllers=false                       only the admission webhooks
  %(prog)s --webhooks=false --leader-elect=false     only the reconcile loop
  %(prog)s --feature-gates=RestartJob=true

The configuration file has apiVersion config.jobset.x-k8s.io/v1alpha1 and kind Configuration; given flags win."""


INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    manager = arguments[:1] == ["manager"]
    if manager:
        arguments[1:] = [_double_dash(argument) for argument in arguments[1:]]
    parsed = _parser(local=not manager).parse_args(arguments)
    try:
        code: int = parsed.handler(parsed)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _double_dash(argument: str) -> str:
    """Go accepts -flag for --flag; -h stays what it is."""
    single = argument.startswith("-") and not argument.startswith("--") and len(argument) > 2
    return f"-{argument}" if single else argument


def _parser(*, local: bool) -> argparse.ArgumentParser:
    """All commands; `local` says whether those that run a control plane on this machine are among them."""
    parser = argparse.ArgumentParser(
        prog="jobset",
        description="JobSet for Kubernetes: run sets of Jobs as one.",
        epilog="`jobset COMMAND --help` says more.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (add_manager, add_validate, add_render, add_explain, *(_local() if local else ()), add_version):
        add(commands)
    return parser


def _local() -> tuple[Callable[[Commands], None], ...]:
    """The commands that run a control plane on this machine: a manager would keep their memory for nothing."""
    from app.stories import add_demo  # noqa: PLC0415 (as above)
    from devcluster.cli import add_cluster  # noqa: PLC0415 (as above)

    return add_cluster, add_demo


def add_version(commands: Commands) -> None:
    """Register `version`."""
    parser = commands.add_parser("version", help="print the version")
    parser.set_defaults(handler=_version)


def add_manager(commands: Commands) -> None:
    """Register `manager`."""
    parser = commands.add_parser(
        "manager",
        help="run the webhooks and the reconcile loop",
        description="Run the admission webhooks and, on the replica that holds the lease, the reconcile loop.",
        epilog=MANAGER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--config", default="", metavar="FILE", help="configuration file; without it, all defaults")
    add("--kubeconfig", default="", metavar="FILE", help="default: $KUBECONFIG, the pod's account, ~/.kube/config")
    add("--feature-gates", default="", metavar="A=true,B=false", help="feature gates, over those of the file")
    for half in ("controllers", "webhooks"):
        add(f"--{half}", type=boolean, default=True, nargs="?", const=True, metavar="BOOL", help=f"run the {half}")
    add("--leader-elect", type=boolean, nargs="?", const=True, metavar="BOOL", help="run only while holding the lease")
    add("--metrics-bind-address", metavar="HOST:PORT", help="metrics endpoint; 0 = none (default :8443)")
    add("--health-probe-bind-address", metavar="HOST:PORT", help="probes; 0 = none (default :8081)")
    add("--kube-api-qps", type=float, metavar="N", help="requests per second to the API server (default 500)")
    add("--kube-api-burst", type=int, metavar="N", help="requests at once to the API server (default 500)")
    add("--zap-log-level", default="", metavar="LEVEL", help="debug, info, error, panic, or a number (1, 2 = info)")
    add("--zap-encoder", default="", metavar="FORM", help="json or console")
    add("--zap-devel", type=boolean, default=True, nargs="?", const=True, metavar="BOOL", help="false: json and info")
    add("--zap-stacktrace-level", default="", metavar="LEVEL", help="info, error or panic: stack traces from there on")
    add("--zap-time-encoding", default="", metavar="FORM", help="epoch, millis, nano, iso8601, rfc3339, rfc3339nano")
    parser.set_defaults(handler=_manager)


def boolean(text: str) -> bool:
    """A Go boolean flag."""
    if text.lower() in {"true", "t", "1"}:
        return True
    if text.lower() in {"false", "f", "0"}:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _settings(parsed: argparse.Namespace) -> tuple[Settings, FeatureGates]:
    settings = load(parsed.config)
    settings = settings.override("metrics", bind_address=parsed.metrics_bind_address)
    settings = settings.override("health", health_probe_bind_address=parsed.health_probe_bind_address)
    settings = settings.override("leader_election", leader_elect=parsed.leader_elect)
    settings = settings.override("client_connection", qps=parsed.kube_api_qps, burst=parsed.kube_api_burst)
    return settings, FeatureGates({**settings.feature_gates, **parse_feature_gates(parsed.feature_gates)})


def _manager(parsed: argparse.Namespace) -> int:
    # Half a second of imports that other commands need not pay.
    from app.manager.options import Options, StartError  # noqa: PLC0415
    from app.manager.process import main as run_manager  # noqa: PLC0415

    try:
        settings, gates = _settings(parsed)
        logs = parse_log_flags(
            devel=parsed.zap_devel,
            encoder=parsed.zap_encoder,
            level=parsed.zap_log_level,
            stacktrace_level=parsed.zap_stacktrace_level,
            time_encoding=parsed.zap_time_encoding,
        )
        configure_logs(logs)
        run_manager(Options(settings, gates, parsed.kubeconfig, parsed.controllers, parsed.webhooks))
    except (SettingsError, FeatureGateError, LogSettingsError, StartError) as error:
        print(f"jobset manager: {error}", file=sys.stderr)
        return 1
    return 0


def _version(_: argparse.Namespace) -> int:
    print(version.current())
    return 0
