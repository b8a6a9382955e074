"""The command line: one program, `jobset`, with a command for each task. cli/table.py and docs/cli.md list them.

Exit codes: 0 done, 1 failed (one clear message on standard error), 2 wrong usage; for `validate` and `render` see
cli/check/cli.py, for `wait` cli/operate/cli.py. The manager takes the Go manager's flags, in both of Go's spellings
(`-flag` and `--flag`), so that deployments can be switched over unchanged.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from app.terminal import escaped_streams
from cli.commands import Commands, Parser
from cli.table import COMMANDS, overview

COMPLETION_VARIABLE = "_ARGCOMPLETE"
"""Environment variable that the shell function of argcomplete sets when it asks for completions."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, the same as in shells."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    if COMPLETION_VARIABLE in os.environ:
        from cli.completion import answer  # noqa: PLC0415 (only where a shell asks)

        answer(_parser(*os.environ.get("COMP_LINE", "").split()[1:]))
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
    """Print the completions for `kubectl jobset` and the words typed so far; gives the exit code."""
    from cli.completion import answer_kubectl  # noqa: PLC0415 (only where a shell asks)

    words = sys.argv[1:]
    print(answer_kubectl(_parser(*words), words), end="")
    return 0


def _double_dash(argument: str) -> str:
    """Go accepts -flag for --flag; -h is not changed."""
    single = argument.startswith("-") and not argument.startswith("--") and len(argument) > 2
    return f"-{argument}" if single else argument


class _Version(argparse.Action):
    """Prints the version, which is looked up only if it is needed."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from app import version  # noqa: PLC0415 (no other command needs it)

        print(version.current_version())
        parser.exit()


def _parser(*words: str) -> argparse.ArgumentParser:
    """The parser of all commands.

    Only the command in `words` gets its flags, since those of each command cost imports.
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
    called = next((word for word in words if not word.startswith("-")), "")
    for name, command in COMMANDS.items():
        if name == called:
            command.add(commands)
        else:
            commands.add_parser(name, help=command.text)
    return parser


def add_version(commands: Commands) -> None:
    """Register `version`."""
    parser = commands.add_parser("version", help="print the version")
    parser.set_defaults(handler=_version)


def _version(_: argparse.Namespace) -> int:
    from app import version  # noqa: PLC0415 (no command pays for what another one imports)

    print(version.current_version())
    return 0
