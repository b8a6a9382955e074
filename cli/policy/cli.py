"""The flags of the commands of `jobset policy`: eval, test, scan, which and export."""

import argparse

from cli.check.cli import add_namespace_flags
from cli.commands import Commands, add_cluster_flags, add_command, add_group, add_namespaces, run_module, set_gates

FLAGS_NOTE = "-p names files of policies and exceptions, -f files of JobSets. `test` takes suites, which name both."

EVAL_EXAMPLES = """examples:
  %(prog)s -p policies/                                what is wrong with the policies themselves
  %(prog)s -f set.yaml -p policies/                    what the policies say about this JobSet
  %(prog)s -f set.yaml -p policies/ --explain          which rule, which number from which template, by which limit
  %(prog)s -f set.yaml -p policies/ -n team-a --namespace-label quota.example.com/gpus=64

A note says when no policy matches a JobSet, and why: then nothing was checked. A warning says why an exception in the
namespace of a JobSet does not count.

exit codes:
  0  admitted, also if no policy matches; there may be warnings
  1  refused, by a policy or for faults of its own; or a policy has faults
  2  not checked, or not all of it"""

TEST_EXAMPLES = """examples:
  %(prog)s policies/                           every suite (kind JobSetPolicySuite) in this directory and below
  %(prog)s -o junit policies/ > policies.xml   for continuous integration; also -o json, yaml, sarif
  %(prog)s --server policies/                  also on an API server with the webhooks, started for this run

exit codes:
  0  all tests passed
  1  some failed, or a suite or policy has faults
  2  not checked, or not all of it: no such file, no suite in it
  3  with --server: the API server decides differently"""


SCAN_EXAMPLES = """examples:
  %(prog)s -A                        JobSets of the cluster that its policies would refuse if all of them denied
  %(prog)s -n team-a -p policies/    by policies in files, before they are stored
  %(prog)s -A -o json | jq .counts

Rules judge JobSets as they are stored. Exceptions of the cluster count.

exit codes:
  0  none would be refused if all policies denied
  1  some would
  2  not known for all of them: no right to read them, policies with faults"""

WHICH_EXAMPLES = """examples:
  %(prog)s -n team-a    policies that are about the namespace, what they demand and set, and exceptions there

exit codes:
  0  shown
  2  it is not known"""

EXPORT_EXAMPLES = """examples:
  %(prog)s -p policies/ | kubectl apply --server-side -f -    the API server refuses what they deny, without the manager
  %(prog)s -p policies/ --only vap > rules.yaml               ValidatingAdmissionPolicies, and their bindings
  %(prog)s -p policies/ -o json | jq '.items[].metadata.name'

Each JobSetPolicy becomes a ValidatingAdmissionPolicy with the same rules, actions and words. Messages on standard error
say where one differs; docs/policy/api-server.md has a table. Exceptions in the same files count until their end, and
only for new JobSets; warnings name those that do not count, and why. The API server has to be Kubernetes 1.34 or later.

What is printed stays as it is: export and apply it again when a policy or an exception has changed.

exit codes:
  0  exported
  1  a policy or an exception has faults; nothing is exported
  2  not exported: no such file, no policy in it"""


def add_policy(commands: Commands) -> None:
    """Register the command `policy` with its subcommands."""
    subcommands = add_group(commands, "policy", FLAGS_NOTE)
    _add_eval(subcommands)
    _add_test(subcommands)
    _add_scan(subcommands)
    _add_which(subcommands)
    _add_export(subcommands)


def _command(commands: Commands, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, examples, summary=summary)
    gates = "as the manager in the cluster has them"
    parser.add_argument("--feature-gates", default="", metavar="A=true,B=false", help=gates)
    return parser


def _add_eval(commands: Commands) -> None:
    parser = _command(commands, "eval", "say what policies decide, and what is wrong with them", EVAL_EXAMPLES)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE|DIR|-", help="JobSets: a file, a directory, or - for standard input")
    add("-f", "--filename", action="append", default=[], metavar="FILE|DIR|-", help="the same; repeatable")
    add("-p", "--policies", action="append", required=True, metavar="FILE|DIR", help="policies, exceptions; repeatable")
    add("-n", "--namespace", default="", metavar="NAME", help="namespace of manifests that name none")
    add_namespace_flags(parser)
    add("--explain", action="store_true", help="show what every rule decides, and the numbers that it compares")
    add("-o", "--output", choices=("text", "json", "yaml", "sarif"), default="text", help="default: text")
    parser.set_defaults(handler=run_module("cli.check.validate", _prepare_eval))


def _add_test(commands: Commands) -> None:
    parser = _command(commands, "test", "run tests of policies", TEST_EXAMPLES)
    add = parser.add_argument
    add("names", nargs="+", metavar="DIR", help="files or directories with suites")
    add("--server", action="store_true", help="ask a local API server, too, with ValidatingAdmissionPolicies of suites")
    add("-o", "--output", choices=("table", "json", "yaml", "junit", "sarif"), default="table", help="default: table")
    parser.set_defaults(handler=run_module("cli.policy.run", set_gates))


def _add_scan(commands: Commands) -> None:
    summary = "say which JobSets of a cluster policies would refuse"
    parser = add_command(commands, "scan", SCAN_EXAMPLES, summary=summary)
    add = parser.add_argument
    add("-p", "--policies", action="append", default=[], metavar="FILE|DIR", help="default: those of the cluster")
    add_namespaces(parser, all_text="JobSets of all namespaces")
    add("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
    add_cluster_flags(parser)
    parser.set_defaults(handler=run_module("cli.policy.scan"))


def _add_which(commands: Commands) -> None:
    parser = add_command(commands, "which", WHICH_EXAMPLES, summary="show the policies that are about a namespace")
    add = parser.add_argument
    add("-n", "--namespace", default="", metavar="NAME", help="default: that of the context")
    add("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
    add_cluster_flags(parser)
    parser.set_defaults(handler=run_module("cli.policy.which"))


def _add_export(commands: Commands) -> None:
    parser = _command(commands, "export", "write policies as admission policies of the API server", EXPORT_EXAMPLES)
    add = parser.add_argument
    text = "policies, exceptions; repeatable. -f and --filename mean the same"
    add("-p", "--policies", "-f", "--filename", action="append", required=True, metavar="FILE|DIR", help=text)
    add("--only", choices=("vap", "map"), default="", help="only rules (vap), or only defaults (map)")
    users = "user whose updates are not judged; repeatable. Default: Kueue, as in the manager's configuration"
    add("--queue-controller", dest="queue_controllers", action="append", metavar="USER", help=users)
    add("-o", "--output", choices=("yaml", "json"), default="yaml", help="default: yaml")
    parser.set_defaults(handler=run_module("cli.policy.export", set_gates))


def _prepare_eval(parsed: argparse.Namespace) -> None:
    """Set the feature gates, and the files of JobSets, of which there may be none."""
    set_gates(parsed)
    parsed.names = [*parsed.files, *parsed.filename]
    parsed.allow_none = not parsed.names
    parsed.command = "policy eval"
