"""The command `jobset manager`, whose flags are in cli/manager_flags.py."""

import argparse
import sys

from api.features import FeatureGateError
from app.logs import LogSettingsError
from app.logs import configure as configure_logs
from app.logs import parse as parse_log_flags
from app.settings import SettingsError
from cli.commands import Commands, add_command
from cli.manager_flags import FlagError, add_flags, effective_settings

MANAGER_EXAMPLES = """examples:
  %(prog)s                                           in a cluster: all defaults
  %(prog)s --kubeconfig=$HOME/.kube/config --config=manager.yaml
  %(prog)s --controllers=false                       only the admission webhooks
  %(prog)s --webhooks=false --leader-elect=false     only the reconcile loop
  %(prog)s --feature-gates=RestartJob=true
  %(prog)s --check-config=manager.yaml               check a file and print what is in force; run nothing

The configuration file has apiVersion config.jobset.x-k8s.io/v1alpha1 and kind Configuration; given flags win."""


def add_manager(commands: Commands) -> None:
    """Register the command `manager`."""
    description = "Run the admission webhooks and, on the replica that holds the lease, the reconcile loop."
    parser = add_command(commands, "manager", MANAGER_EXAMPLES, description)
    add_flags(parser)
    parser.set_defaults(handler=_manager)


def _manager(parsed: argparse.Namespace) -> int:
    # These imports take half a second, and other commands do not need them.
    from app.manager.options import Options, StartError  # noqa: PLC0415
    from app.manager.process import main as run_manager  # noqa: PLC0415

    try:
        effective = effective_settings(parsed, parsed.check_config or parsed.config)
        logs = parse_log_flags(
            devel=parsed.zap_devel,
            encoder=parsed.zap_encoder,
            level=parsed.zap_log_level,
            stacktrace_level=parsed.zap_stacktrace_level,
            time_encoding=parsed.zap_time_encoding,
        )
        if parsed.check_config:
            from cli.config_check import render_config  # noqa: PLC0415 (only for this flag)

            print(render_config(effective, parsed.output), end="")
            return 0
        if parsed.output != "table":
            raise FlagError("flag --output: it is the form of --check-config, which is not given")
        if not (parsed.controllers or parsed.webhooks):
            raise FlagError("flags --controllers and --webhooks: both are false, so there is nothing to run")
        configure_logs(logs)
        options = Options(effective.settings, effective.gates, parsed.kubeconfig, parsed.controllers, parsed.webhooks)
        run_manager(options)
    except (SettingsError, FeatureGateError, LogSettingsError, StartError) as error:
        print(f"jobset manager: {error}", file=sys.stderr)
        return 1 if isinstance(error, StartError) or type(error) is SettingsError else 2
    return 0
