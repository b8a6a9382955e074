"""The command `jobset rollback-check`. Parses and calls; it decides nothing."""

import argparse
import sys

from cli.commands import Commands, add_cluster_flags, as_command

EXAMPLES = """examples:
  %(prog)s                     before the Go JobSet is installed: what would behave otherwise
  %(prog)s -o json             the same for programs
  %(prog)s --release           after this manager has stopped: lift its scheduling gates, too

exit codes:
  0  nothing is concerned, or is any more
  1  something is concerned
  2  not checked: a wrong flag, a cluster that does not answer"""


def add_rollback_check(commands: Commands) -> None:
    """Register `rollback-check`."""
    parser = commands.add_parser(
        "rollback-check",
        help="name what would behave otherwise under the Go JobSet",
        description="Name every JobSet and pod that would behave otherwise under the Go JobSet, and what to do.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-n", "--namespace", default="", metavar="NAME", help="default: all namespaces")
    add("-o", "--output", choices=("table", "yaml", "json"), default="table", help="default: table, a line for each")
    add("--release", action="store_true", help="remove the scheduling gates that only this program lifts")
    add_cluster_flags(parser)
    parser.set_defaults(handler=as_command(_rollback_check))


def _rollback_check(parsed: argparse.Namespace) -> int:
    from cli.rollback import run  # noqa: PLC0415 (imports that other commands need not pay)

    options = run.Options(
        namespace=parsed.namespace,
        output=parsed.output,
        release=parsed.release,
        kubeconfig=parsed.kubeconfig,
        context=parsed.context,
    )
    return run.run(options, sys.stdout, sys.stderr)
