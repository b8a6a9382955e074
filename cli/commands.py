"""Functions to register commands and their flags.

Each command has a function `add_NAME(commands)`, which cli/table.py lists. This function adds the parser of the command
and sets its `handler`, which takes the parsed arguments and returns the exit code. Modules that only the handler needs
are imported by the handler, so that other commands start faster.
"""

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any, NoReturn, TypeAlias

from cli.table import COMMANDS
from cli.terminal import raw_stream

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 (it has no public name)
_CHOICE = re.compile(r"invalid choice: '?([^']*)'? \(choose from (.*)\)$")
"""The message of argparse about a wrong choice. Its choices may be in quotes."""
Handler = Callable[[argparse.Namespace], int]
"""Takes the parsed arguments of a command, runs it, and returns the exit code."""


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line with the name of the command. Parsers of subcommands have this type."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, and refuse unknown ones. Argparse would leave them to the parser of `jobset`."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unknown: {' '.join(unknown)}{self._likely_flags(unknown)}")
        return parsed, unknown

    def _likely_flags(self, unknown: Sequence[str]) -> str:
        """The end of a message with flags that were probably meant; empty without such flags."""
        from kube.model.suggest import nearest  # noqa: PLC0415 (only for mistakes)

        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        flags_written = (word.partition("=")[0] for word in unknown if word.startswith("--"))
        similar_flags = [flag for flag in (nearest(word, flags) for word in flags_written) if flag]
        return f"; did you mean {' and '.join(similar_flags)}?" if similar_flags else ""

    def error(self, message: str) -> NoReturn:
        """End the process with exit code 2. The message about a wrong choice suggests a similar choice."""
        if match := _CHOICE.search(message):
            from kube.model.suggest import did_you_mean  # noqa: PLC0415 (only for mistakes)

            wrong, choices = match[1], [choice.strip().strip("'") for choice in match[2].split(",")]
            message = f"{message[: match.start()]}invalid choice: {wrong!r}; {did_you_mean(wrong, choices)}"
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` says more\n")


def number(text: str) -> float:
    """The value of a flag that takes a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def whole_number(text: str) -> int:
    """The value of a flag that takes a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


class FlagValueError(Exception):
    """The value of a flag is invalid or missing, or contradicts another flag. The text says why."""


def set_gates(parsed: argparse.Namespace) -> None:
    """Set `gates` to the feature gates that --feature-gates names. Raises `FlagValueError`."""
    from api.features import FeatureGateError, FeatureGates, parse_feature_gates  # noqa: PLC0415 (only here)

    try:
        parsed.gates = FeatureGates(parse_feature_gates(parsed.feature_gates))
    except FeatureGateError as error:
        raise FlagValueError(str(error)) from error


def add_command(
    commands: Commands, name: str, examples: str, description: str = "", *, summary: str = ""
) -> argparse.ArgumentParser:
    """Register a command.

    `summary`: a text in lower case; by default that of the table of commands. `description`: a longer text; by default
    the summary.
    """
    summary = summary or COMMANDS[name].summary
    return commands.add_parser(
        name,
        help=summary,
        description=description or _sentence(summary),
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_group(commands: Commands, name: str, note: str = "") -> Commands:
    """Register a command with subcommands. Returns the registry of the subcommands. `note`: the end of the help."""
    summary = COMMANDS[name].summary
    parser = commands.add_parser(
        name, help=summary, description=_sentence(summary), epilog=note or None, allow_abbrev=False
    )
    return parser.add_subparsers(dest="part", required=True, metavar="COMMAND")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def run_module(module: str, prepare: Callable[[argparse.Namespace], None] | None = None) -> Handler:
    """A handler that calls `run` of a module with its `Options`, whose fields have the names of the flags.

    `prepare` sets options that are computed from several flags. An empty text means the default of the option.
    """

    def handle(parsed: argparse.Namespace) -> int:
        command = import_module(module)  # a command imports only what it needs
        if prepare is not None:
            prepare(parsed)
        arguments = {field: getattr(parsed, field.name, None) for field in fields(command.Options)}
        options = {
            field.name: value
            for field, value in arguments.items()
            if value is not None and not (value == "" and isinstance(field.default, str))
        }
        code: int = command.run(command.Options(**options), sys.stdout, sys.stderr)
        return code

    return command_handler(handle)


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """Register --kubeconfig and --context."""
    add = parser.add_argument
    add("--kubeconfig", default="", metavar="FILE", help="default: $KUBECONFIG, the pod's account, ~/.kube/config")
    add("--context", default="", metavar="NAME", help="default: the current one")


def add_namespaces(
    parser: argparse.ArgumentParser, *, all_text: str = "all JobSets of all namespaces", **options: Any
) -> None:
    """Register -n and -A, which exclude each other. `all_text`: the help of -A. `options`: options of -n."""
    add = parser.add_mutually_exclusive_group().add_argument
    add("-n", "--namespace", default="", metavar="NAME", help="default: that of the context", **options)
    add("-A", "--all-namespaces", dest="everywhere", action="store_true", help=all_text)


def command_handler(handler: Handler) -> Handler:
    """The handler with UTF-8 output, whatever the locale.

    It ends silently if the reader of its output, such as `head`, has ended. A `FlagValueError` becomes a message.
    """

    def run(parsed: argparse.Namespace) -> int:
        for stream in map(raw_stream, (sys.stdout, sys.stderr)):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        try:
            code = handler(parsed)
            sys.stdout.flush()
        except FlagValueError as error:
            sys.stderr.write(f"jobset {parsed.command}: {error}\n")
            return 2
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return code

    return run
