"""The flags of `jobset webhooks`."""

from cli.commands import Commands, add_cluster_flags, add_command, run_module

EXAMPLES = """examples:
  %(prog)s status              which webhooks the API server calls
  %(prog)s off                 it calls none: for an emergency in which they stand in the way
  %(prog)s on                  they are as before

While they are off:
  - JobSets are created and changed without defaults and without checks but the schema of the CRD.
  - Pods of exclusive Jobs are created without their affinity: Jobs may share a domain until they restart.
  - Everything else goes on: the manager reconciles, and pods of other JobSets never needed a webhook.
What was let in stays as it is when they are on again. `kubectl apply`, Helm or GitOps put them back, too.

exit codes:
  0  done; of status: all are on
  1  of status: some are off or missing, or no replica answers them; of on: some are missing
  2  not done: a wrong flag, a cluster that does not answer, a right that is missing"""


def add_webhooks(commands: Commands) -> None:
    """Register the command `webhooks`."""
    description = "Take the webhooks of JobSet out of the way of the API server, and put them back."
    parser = add_command(commands, "webhooks", EXAMPLES, description)
    add = parser.add_argument
    add("action", choices=("status", "off", "on"), metavar="status|off|on", help="what to do")
    add("-o", "--output", choices=("table", "yaml", "json"), default="table", help="default: table, a line for each")
    add_cluster_flags(parser)
    parser.set_defaults(handler=run_module("cli.break_glass.run"))
