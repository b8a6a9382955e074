"""The commands `jobset policy eval` and `jobset policy test`. Parses and calls; it decides nothing."""

import argparse
import sys

from api.features import FeatureGates, parse_feature_gates
from app.check.cli import add_namespace_flags, colorful
from app.commands import Commands, as_command
from kube.clock import now

EVAL_EXAMPLES = """examples:
  %(prog)s -f set.yaml -p policies/                    what the policies say about this JobSet
  %(prog)s -f set.yaml -p policies/ --explain          which rule, which number from which template, by which limit
  %(prog)s -f set.yaml -p policies/ -n team-a --namespace-label quota.example.com/gpus=64

exit codes:
  0  admitted; there may be warnings
  1  refused, by a policy or for faults of its own; or a policy has faults
  2  not checked, or not all of it"""

TEST_EXAMPLES = """examples:
  %(prog)s policies/                           every suite (kind JobSetPolicySuite) in this directory and below
  %(prog)s -o junit policies/ > policies.xml   for continuous integration; also -o json and -o sarif

exit codes:
  0  all tests passed
  1  some failed, or a suite or policy has faults
  2  not checked, or not all of it: no such file, no suite in it"""


def add_policy(commands: Commands) -> None:
    """Register `policy` with its commands."""
    text = "judge JobSets by JobSetPolicies, and test policies, without a cluster"
    parser = commands.add_parser("policy", help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    parts = parser.add_subparsers(dest="part", required=True, metavar="COMMAND")
    _add_eval(parts)
    _add_test(parts)


def _command(commands: Commands, name: str, text: str, examples: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    gates = "as the manager in the cluster has them"
    parser.add_argument("--feature-gates", default="", metavar="A=true,B=false", help=gates)
    return parser


def _add_eval(commands: Commands) -> None:
    parser = _command(commands, "eval", "say what policies decide about JobSets", EVAL_EXAMPLES)
    add = parser.add_argument
    add("-f", "--filename", action="append", required=True, metavar="FILE|DIR|-", help="JobSets; repeatable")
    add("-p", "--policies", action="append", required=True, metavar="FILE|DIR", help="policies, exceptions; repeatable")
    add("-n", "--namespace", default="", metavar="NAME", help="namespace of manifests that name none")
    add_namespace_flags(parser)
    add("--explain", action="store_true", help="show what every rule decides, and the numbers that it compares")
    add("-o", "--output", choices=("text", "json", "sarif"), default="text", help="default: text")
    parser.set_defaults(handler=as_command(_eval))


def _add_test(commands: Commands) -> None:
    parser = _command(commands, "test", "run tests of policies", TEST_EXAMPLES)
    add = parser.add_argument
    add("names", nargs="+", metavar="DIR", help="files or directories with suites")
    add("-o", "--output", choices=("table", "json", "junit", "sarif"), default="table", help="default: table")
    parser.set_defaults(handler=as_command(_test))


def _gates(parsed: argparse.Namespace) -> FeatureGates:
    return FeatureGates(parse_feature_gates(parsed.feature_gates))


def _eval(parsed: argparse.Namespace) -> int:
    from app.check import validate  # noqa: PLC0415 (imports that other commands need not pay)

    options = validate.Options(
        names=parsed.filename,
        gates=_gates(parsed),
        namespace=parsed.namespace,
        output=parsed.output,
        policies=parsed.policies,
        at=parsed.at or now(),
        namespace_labels=dict(parsed.namespace_label),
        namespace_annotations=dict(parsed.namespace_annotation),
        explain=parsed.explain,
        command="policy eval",
    )
    return validate.run(options, sys.stdout, sys.stderr, color=colorful(sys.stdout))


def _test(parsed: argparse.Namespace) -> int:
    from app.policy import run  # noqa: PLC0415 (the same)

    options = run.Options(parsed.names, _gates(parsed), parsed.output)
    return run.run(options, sys.stdout, sys.stderr, color=colorful(sys.stdout))
