"""The flags of `jobset rule`."""

from cli.commands import Commands, add_command, run_module

EXAMPLES = """examples:
  %(prog)s variable-later          why this warning is given, with an example that gets it and one that does not
  %(prog)s                         the ids of all rules

An id is what a warning ends with, in brackets, and what `jobset validate -o json` gives as `rule`.

exit codes:
  0  done
  2  there is no such rule"""


def add_rule(commands: Commands) -> None:
    """Register the command `rule`."""
    parser = add_command(commands, "rule", EXAMPLES)
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="default: list all rules")
    parser.set_defaults(handler=run_module("cli.rule.run"))
