"""How commands are registered: each by a function `add_NAME(commands)`, and cli/main.py lists these functions.

The function adds the command's parser and sets its `handler`, which takes the parsed arguments and gives the exit code.
What only the handler needs is imported by it, so that no command pays for another one.
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

from app.terminal import raw_stream
from cli.table import COMMANDS

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 (it has no public name)
_CHOICE = re.compile(r"invalid choice: '?([^']*)'? \(choose from (.*)\)$")
"""The message of argparse, with the choices in quotes or without."""
Handler = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, with the name of the command. Subcommands get this type, too."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments: else a command would leave them to `jobset`, which knows less of them."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unknown: {' '.join(unknown)}{self._likely_flags(unknown)}")
        return parsed, unknown

    def _likely_flags(self, unknown: Sequence[str]) -> str:
        """Flags that may have been meant."""
        from kube.model.suggest import nearest  # noqa: PLC0415 (only for mistakes)

        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        flags_written = (word.partition("=")[0] for word in unknown if word.startswith("--"))
        close = [flag for flag in (nearest(word, flags) for word in flags_written) if flag]
        return f"; did you mean {' and '.join(close)}?" if close else ""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2. The message for a wrong choice suggests the likely one."""
        if found := _CHOICE.search(message):
            from kube.model.suggest import did_you_mean  # noqa: PLC0415 (only for mistakes)

            wrong, choices = found[1], [choice.strip().strip("'") for choice in found[2].split(",")]
            message = f"{message[: found.start()]}invalid choice: {wrong!r}; {did_you_mean(wrong, choices)}"
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` says more\n")


def number(text: str) -> float:
    """Value of a flag that takes a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def whole_number(text: str) -> int:
    """Value of a flag that takes a number without a fraction."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


class FlagValueError(Exception):
    """The value of a flag cannot be used; the text says why."""


def set_gates(parsed: argparse.Namespace) -> None:
    """Set `gates` to the feature gates that --feature-gates names. Raises `FlagValueError`."""
    from api.features import FeatureGateError, FeatureGates, parse_feature_gates  # noqa: PLC0415 (only here)

    try:
        parsed.gates = FeatureGates(parse_feature_gates(parsed.feature_gates))
    except FeatureGateError as error:
        raise FlagValueError(str(error)) from error


def add_command(
    commands: Commands, name: str, examples: str, description: str = "", *, text: str = ""
) -> argparse.ArgumentParser:
    """Register a command. `text`: what it does, in lower case; by default from the table of commands.

    `description`: a longer text; by default the same.
    """
    text = text or COMMANDS[name].text
    return commands.add_parser(
        name,
        help=text,
        description=description or _sentence(text),
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_group(commands: Commands, name: str, note: str = "") -> Commands:
    """Register a command with commands of its own; returns the object that these are added to.

    `note`: about all of them.
    """
    text = COMMANDS[name].text
    parser = commands.add_parser(name, help=text, description=_sentence(text), epilog=note or None, allow_abbrev=False)
    return parser.add_subparsers(dest="part", required=True, metavar="COMMAND")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def run_module(module: str, prepare: Callable[[argparse.Namespace], None] | None = None) -> Handler:
    """The handler that calls `run` of a module with its `Options`, which flags fill by their names.

    `prepare` adds options that are made from several flags. An empty text means the default, where there is one.
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

    return as_command(handle)


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """Register the flags of a command that reads a cluster with the user's credentials."""
    add = parser.add_argument
    add("--kubeconfig", default="", metavar="FILE", help="default: $KUBECONFIG, the pod's account, ~/.kube/config")
    add("--context", default="", metavar="NAME", help="default: the current one")


def add_namespaces(
    parser: argparse.ArgumentParser, *, all_text: str = "all JobSets of all namespaces", **options: Any
) -> None:
    """Register -n and -A, of which one may be given. `options`: of the argument -n."""
    add = parser.add_mutually_exclusive_group().add_argument
    add("-n", "--namespace", default="", metavar="NAME", help="default: that of the context", **options)
    add("-A", "--all-namespaces", dest="everywhere", action="store_true", help=all_text)


def as_command(handler: Handler) -> Handler:
    """The handler, writing UTF-8 wherever it runs.

    Ends silently if the reader of its output stops, such as `head`; a wrong feature gate is an error message.
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
