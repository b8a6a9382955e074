"""The command `jobset certs`. Parses and calls; it decides nothing."""

import argparse
import sys

from cli.commands import Commands, add_cluster_flags, as_command

STATUS = """examples:
  %(prog)s                            of an installation by install.yaml, kustomize or `helm install jobset`
  %(prog)s -n batch --secret NAME     of another namespace or Secret
  %(prog)s -o json                    for programs

It needs the right to get the Secret, the two webhook configurations and the CRD.

exit codes:
  0  the certificate is good, and all callers trust it
  1  something is wrong: lines that begin with `problem:` say what
  2  not known: a wrong flag, a cluster that does not answer, a right that is missing"""


def add_certs(commands: Commands) -> None:
    """Register `certs`."""
    text = "show the certificates of the webhooks"
    parser = commands.add_parser("certs", help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    parts = parser.add_subparsers(dest="part", required=True, metavar="COMMAND")
    status = parts.add_parser(
        "status",
        help="which there are, until when, and whether the API server trusts them",
        description="Show the certificates of the webhooks, and whether each caller trusts them.",
        epilog=STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = status.add_argument
    add("-n", "--namespace", default="", metavar="NAME", help="of the manager; default: jobset-system")
    add("--secret", default="", metavar="NAME", help="with the certificate; default: jobset-webhook-server-cert")
    add("-o", "--output", choices=("table", "yaml", "json"), default="table", help="default: table")
    add_cluster_flags(status)
    status.set_defaults(handler=as_command(_status))


def _status(parsed: argparse.Namespace) -> int:
    from cli.certificates import run  # noqa: PLC0415 (imports that other commands need not pay)

    options = run.Options(
        namespace=parsed.namespace or run.Options.namespace,
        secret=parsed.secret or run.Options.secret,
        output=parsed.output,
        kubeconfig=parsed.kubeconfig,
        context=parsed.context,
    )
    return run.run(options, sys.stdout, sys.stderr)
