"""The flags of `jobset validate` and `jobset render`."""

import argparse
from functools import partial
from typing import TYPE_CHECKING

from cli.commands import Commands, FlagValueError, add_command, run_module, set_gates

if TYPE_CHECKING:
    from datetime import datetime

VALIDATE_EXAMPLES = """examples:
  %(prog)s jobset.yaml                          one file, all its documents; the same as -f jobset.yaml
  %(prog)s a.yaml b.yaml jobsets/               several; a directory stands for its *.yaml, *.yml and *.json
  helm template chart | %(prog)s -f -           standard input; objects of other kinds are passed over
  %(prog)s -R -f deploy/ --strict               subdirectories too; warnings count as faults
  %(prog)s -f jobset.yaml --server              check at the cluster too: updates, namespace, Jobs; changes nothing
  %(prog)s -R -f deploy/ --local-server         check at an API server too, which is started for this run (4 s)
  %(prog)s -f jobset.yaml -o sarif > out.sarif  for code hosts; -o json for everything else
  %(prog)s -R -f deploy/ -o github              in a GitHub workflow: findings beside the lines of a pull request
  git diff --name-only --diff-filter=d -z '*.yaml' '*.yml' | xargs -0 -r %(prog)s --allow-none    changed files, which
                                                need not hold a JobSet

Each finding has the form FILE:LINE:COLUMN: error: PATH: what is wrong; how to fix it. The line follows, with a mark
under the place. In a file of several JobSets each finding names its own before PATH. JobSetPolicies and exceptions from
them are checked, too; JobSets are held to those of --policies alone. These are the checks of the admission webhook,
the checks of the API server before it, and the rules of the Job API that people break.
--local-server checks all rules of the Job API: it starts etcd and kube-apiserver on this machine, with the CRD, and
stops them at the end. `jobset cluster fetch` downloads or builds these binaries once. For what only a certain cluster
knows (policies, quotas, stored objects) use --server.

exit codes:
  0  good; there may be warnings
  1  faults
  2  not checked, or not all of it: no such file, no JobSet in it (0 with --allow-none), a wrong flag,
     a cluster that does not answer; with --strict also a check of the cluster that a missing right prevents"""

RENDER_EXAMPLES = """examples:
  %(prog)s -f jobset.yaml                          Service, claims and Jobs as YAML
  %(prog)s -f jobset.yaml -o json | jq '.items[].metadata.name'
  %(prog)s -f gang.yaml -o tree --feature-gates=AllAlpha=true    its gangs as a picture: how many, where
  %(prog)s -f jobset.yaml -n team-a | kubectl diff -f -      beside the objects that exist
  kubectl get jobset train -o yaml | %(prog)s -f -          with its uid and attempt: owner references, names of groups
  %(prog)s -f jobset.yaml | kubectl apply --dry-run=server -f -

The objects are those that the controller creates for the stored JobSet, defaults included, in the same order. A
manifest has no uid before it is stored. Without one, owner references and the labels jobset-uid and restart-attempt are
left out, names of groups (spec.scheduling) end in another hash, and a generated name ends in xxxxx. The priority label
of pods is left out, because it depends on the cluster's PriorityClasses. A JobSet without a namespace is taken to be in
`default`.

exit codes:
  0  rendered
  1  a JobSet has faults: standard error has them as `jobset validate` writes them, and nothing is rendered
  2  not rendered: no such file, no JobSet in it, a wrong flag"""


def add_validate(commands: Commands) -> None:
    """Register the command `validate`."""
    parser = _command(commands, "validate", VALIDATE_EXAMPLES)
    add = parser.add_argument
    add("-o", "--output", choices=("text", "json", "yaml", "sarif", "github"), default="text", help="default: text")
    add("--strict", action="store_true", help="warnings count as faults: exit code 1")
    add("--allow-none", action="store_true", help="files without any JobSet are good: exit code 0")
    switch = partial(parser.add_mutually_exclusive_group().add_argument, action="store_true")
    switch("--server", help="check at the cluster too, with your rights and its feature gates; changes nothing there")
    text = "check at an API server that is started here for this run; needs no cluster and no rights"
    switch("--local-server", help=text)
    add("--policies", action="append", default=[], metavar="FILE|DIR", help="hold them to JobSetPolicies; repeatable")
    add_namespace_flags(parser)
    add("--kubeconfig", default="", metavar="FILE", help="for --server; default: $KUBECONFIG, ~/.kube/config")
    add("--context", default="", metavar="NAME", help="for --server; default: the current one")
    parser.set_defaults(handler=run_module("cli.check.validate", _prepare))


def add_render(commands: Commands) -> None:
    """Register the command `render`."""
    parser = _command(commands, "render", RENDER_EXAMPLES)
    parser.add_argument("-o", "--output", choices=("yaml", "json", "tree"), default="yaml", help="default: yaml")
    parser.set_defaults(handler=run_module("cli.check.render", _prepare))


def _command(commands: Commands, name: str, examples: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, examples)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE|DIR|-", help="a file, a directory, or - for standard input")
    add("-f", "--filename", action="append", default=[], metavar="FILE|DIR|-", help="the same; repeatable")
    add("-R", "--recursive", action="store_true", help="look into subdirectories too")
    add("-n", "--namespace", default="", type=_namespace, metavar="NAME", help="namespace of manifests that name none")
    text = "as the manager in the cluster has them; not with --server, which asks it"
    add("--feature-gates", default="", metavar="A=true,B=false", help=text)
    return parser


def _prepare(parsed: argparse.Namespace) -> None:
    """Set the files to read, and the feature gates. Raises `FlagValueError`."""
    parsed.names = [*parsed.files, *parsed.filename]
    if not parsed.names:
        example = f"`jobset {parsed.command} jobset.yaml`"
        raise FlagValueError(f"no file is named: give files or directories, such as {example}, or - for standard input")
    if getattr(parsed, "server", False):
        if parsed.feature_gates:
            raise FlagValueError("--server asks the manager there: leave out --feature-gates")
        parsed.feature_gates = "AllAlpha=true"  # the manager applies its own gates
    set_gates(parsed)


def add_namespace_flags(parser: argparse.ArgumentParser) -> None:
    """Register the flags for labels and annotations of the namespace, and for the time, which policies read."""
    for kind in ("label", "annotation"):
        name, text = f"namespace_{kind}s", f"{kind} of the namespace, for policies; repeatable"
        parser.add_argument(
            f"--namespace-{kind}", dest=name, action="append", type=_key_and_value, metavar="KEY=VALUE", help=text
        )
    parser.add_argument(
        "--at", type=_time, metavar="TIME", help="when exceptions from policies have to count; default: now"
    )


def _time(text: str) -> "datetime":
    from policy.exceptions import time_of  # noqa: PLC0415 (only for this flag)

    time = time_of(text)
    if time is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write a time such as 2030-01-31T12:00:00Z")
    return time


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: write KEY=VALUE")
    return key, value


def _namespace(text: str) -> str:
    from kube.model.validation import dns1123_label  # noqa: PLC0415 (only for this flag)

    if text and (complaints := dns1123_label(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of a namespace: {complaints[0]}")
    return text
