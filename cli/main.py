"""The program `jobset`. cli/table.py and docs/cli.md list its commands.

Exit codes of most commands: 0 done, 1 failed (one message on standard error), 2 wrong usage. cli/check/cli.py and
cli/operate/cli.py describe further codes. The manager takes the flags of the Go manager, in both spellings of Go
(`-flag` and `--flag`), so that a Deployment of the Go manager needs no changes.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from cli.commands import Commands, Parser
from cli.table import COMMANDS, overview, register
from cli.terminal import escaped_streams

COMPLETION_VARIABLE = "_ARGCOMPLETE"
"""Environment variable with which the shell function of argcomplete requests completions."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit code."""
    if COMPLETION_VARIABLE in os.environ:
        import argcomplete  # noqa: PLC0415 (only for completions)

        argcomplete.autocomplete(_parser(*os.environ.get("COMP_LINE", "").split()[1:]))
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["manager"]:
        arguments[1:] = [_double_dash(argument) for argument in arguments[1:]]
    with escaped_streams():
        parsed = _parser(*arguments).parse_args(arguments)
        try:
            code: int = parsed.handler(parsed)
        except KeyboardInterrupt:
            return INTERRUPTED
        return code


def complete_for_kubectl() -> int:
    """Print the completions for `kubectl jobset` and the typed words. Returns the exit code."""
    from cli.completion import kubectl_completions  # noqa: PLC0415 (only for completions)

    words = sys.argv[1:]
    print(kubectl_completions(_parser(*words), words), end="")
    return 0


def _double_dash(argument: str) -> str:
    """The argument with two dashes, since Go accepts -flag for --flag. -h is not changed."""
    has_single_dash = argument.startswith("-") and not argument.startswith("--") and len(argument) > 2
    return f"-{argument}" if has_single_dash else argument


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        parser.exit(_print_version())


def _parser(*words: str) -> argparse.ArgumentParser:
    """The parser of the program.

    Only the command in `words` gets its flags, since the flags of a command need imports.
    """
    parser: argparse.ArgumentParser = Parser(
        prog="jobset",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="\n".join(["JobSet for Kubernetes: run sets of Jobs as one.", *overview()]),
        epilog="`jobset COMMAND --help` says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", prog="jobset", help=argparse.SUPPRESS
    )
    chosen_command = next((word for word in words if not word.startswith("-")), "")
    for name, command in COMMANDS.items():
        if name == chosen_command:
            register(commands, name)
        else:
            commands.add_parser(name, help=command.summary)
    return parser


def add_version(commands: Commands) -> None:
    """Register the command `version`."""
    parser = commands.add_parser("version", help="print the version")
    parser.set_defaults(handler=_print_version)


def _print_version(*_: argparse.Namespace) -> int:
    from app import version  # noqa: PLC0415 (no other command needs it)

    print(version.current_version())
    return 0
