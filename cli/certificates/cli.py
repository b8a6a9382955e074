"""The flags of `jobset certs`."""

from cli.commands import Commands, add_cluster_flags, add_command, add_group, run_module

EXAMPLES = """examples:
  %(prog)s                            of an installation by install.yaml, kustomize or `helm install jobset`
  %(prog)s -n batch --secret NAME     of another namespace or Secret
  %(prog)s -o json                    for programs

It needs the right to get the Secret, the two webhook configurations and the CRD.

exit codes:
  0  the certificate is good, and all callers trust it
  1  something is wrong: lines that begin with `problem:` say what
  2  not known: a wrong flag, a cluster that does not answer, a right that is missing"""


def add_certs(commands: Commands) -> None:
    """Register the command `certs`."""
    status = add_command(
        add_group(commands, "certs"),
        "status",
        EXAMPLES,
        "Show the certificates of the webhooks, and whether each caller trusts them.",
        summary="which there are, until when, and whether the API server trusts them",
    )
    add = status.add_argument
    add("-n", "--namespace", default="", metavar="NAME", help="of the manager; default: jobset-system")
    add("--secret", default="", metavar="NAME", help="with the certificate; default: jobset-webhook-server-cert")
    add("-o", "--output", choices=("table", "yaml", "json"), default="table", help="default: table")
    add_cluster_flags(status)
    status.set_defaults(handler=run_module("cli.certificates.run"))
