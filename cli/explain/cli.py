"""The flags of `jobset explain`, which reads a cluster with the user's credentials and changes nothing."""

import argparse

from cli.commands import Commands, add_cluster_flags, add_command, add_namespaces, run_module
from cli.completion import complete_with_names

EXAMPLES = """examples:
  %(prog)s train                          in the namespace of the context
  %(prog)s jobset/train -n team-a
  %(prog)s                                all JobSets of the namespace, one line each; -A: of all namespaces
  %(prog)s train -o json | jq -r '.. | .remedy? // empty'
  %(prog)s train -w                       again whenever it changes, until the JobSet has ended

It prints, from the JobSet down to the pod, what waits for what, since when, the message of the component that reported
it, and how to fix it. It reads the JobSet, its Jobs, its pods that are not ready, Warnings, the manager's lease, the
groups of a set with spec.scheduling, and, where these lead further, nodes, claims, StorageClasses, events about pods,
and the leader pods of other JobSets. It leaves out what you may not read, and names it at the end.

exit codes:
  0  explained; without a name also if there are none
  1  there is no JobSet of that name
  2  not explained: wrong usage, a cluster that does not answer, no right to read the JobSet"""


def add_explain(commands: Commands) -> None:
    """Register the command `explain`."""
    description = "Say why a JobSet waits, or how it ended, in plain words."
    parser = add_command(commands, "explain", EXAMPLES, description)
    add = parser.add_argument
    text = "name of the JobSet, jobset/NAME or jobset NAME; default: all"
    complete_with_names(add("name", nargs="*", metavar="NAME", help=text))
    add_namespaces(parser)
    add("-w", "--watch", action="store_true", help="again whenever it changes, until the JobSet has ended")
    add("-o", "--output", choices=("text", "json", "yaml"), default="text", help="default: text")
    add_cluster_flags(parser)
    parser.set_defaults(handler=run_module("cli.explain.run", _join_name))


def _join_name(parsed: argparse.Namespace) -> None:
    """Join the words `jobset NAME`, which kubectl accepts, to `jobset/NAME`. `session.jobset_name` checks the name."""
    parsed.name = "/".join(parsed.name) if parsed.name else None
