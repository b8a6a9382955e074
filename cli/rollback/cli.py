"""The flags of `jobset rollback-check`."""

from cli.commands import Commands, add_cluster_flags, add_command, run_module

EXAMPLES = """examples:
  %(prog)s                     before the Go JobSet is installed: what would behave otherwise
  %(prog)s -o json             the same for programs
  %(prog)s --release           after this manager has stopped: lift its scheduling gates, too

exit codes:
  0  nothing is concerned, or is any more
  1  something is concerned
  2  not checked: a wrong flag, a cluster that does not answer"""


def add_rollback_check(commands: Commands) -> None:
    """Register the command `rollback-check`."""
    description = "Name every JobSet and pod that would behave otherwise under the Go JobSet, and what to do."
    parser = add_command(commands, "rollback-check", EXAMPLES, description)
    add = parser.add_argument
    add("-n", "--namespace", default="", metavar="NAME", help="default: all namespaces")
    add("-o", "--output", choices=("table", "yaml", "json"), default="table", help="default: table, a line for each")
    add("--release", action="store_true", help="remove the scheduling gates that only this program lifts")
    add_cluster_flags(parser)
    parser.set_defaults(handler=run_module("cli.rollback.run"))
