"""The flags of `jobset ui`."""

import argparse

from cli.commands import Commands, add_cluster_flags, add_command, add_namespaces, run_module

EXAMPLES = """examples:
  %(prog)s                                JobSets of the namespace of the context; open the address that it prints
  %(prog)s -n team-a --address 127.0.0.1:9000
  %(prog)s -A                             of all namespaces
  ssh -L 8790:127.0.0.1:8790 HOST jobset ui    from another machine; then open http://127.0.0.1:8790/ there

The page lists JobSets with their states. Of one set it shows stages, Jobs, restarts on a time line, which Job is in
which rack or other domain, gangs, and why it waits, as jobset explain does. It changes as the cluster does.

It reads with your rights and changes nothing: get, list and watch JobSets; without the rights to list and watch jobs,
pods and nodes it shows less, and says so. Whoever can open the address sees what you may see: it listens on this
machine only, and every user of this machine can open it. To listen elsewhere, put a proxy that asks who it is before
it, and name the host that browsers use with --allow-host.

exit codes:
  0  ended by Ctrl-C or SIGTERM
  2  not shown: wrong usage, an address that is in use, a cluster that does not answer, no right to list JobSets"""

ADDRESS = "127.0.0.1:8790"


def add_ui(commands: Commands) -> None:
    """Register the command `ui`."""
    description = "Show JobSets on a page in the browser, as they change."
    parser = add_command(commands, "ui", EXAMPLES, description)
    add_namespaces(parser, type=single_namespace)
    add = parser.add_argument
    add("--address", default=ADDRESS, metavar="HOST:PORT", help=f"where to listen (default {ADDRESS})")
    text = "a host that browsers may ask for, beside localhost and the address; may be repeated"
    add("--allow-host", dest="allowed_hosts", action="append", metavar="NAME", help=text)
    add_cluster_flags(parser)
    parser.set_defaults(handler=run_module("cli.ui.run"))


def single_namespace(text: str) -> str:
    """The value of -n. Refuses several namespaces, since a page shows one namespace or all."""
    if "," in text:
        raise argparse.ArgumentTypeError("one page shows one namespace, or all (-A): start one for each")
    return text
