"""Registers subcommands of `cluster`, adds their common flags, and reports their errors."""

# ruff: noqa: T201 - printing is what it is for

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from dev.cluster.errors import DevclusterError, UsageError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 (it has no public name)


def add_verb(
    verbs: Commands, name: str, text: str, run: Callable[[argparse.Namespace], int], epilog: str | None = None
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=_reporting(run))
    return parser


def add_cluster_flags(parser: argparse.ArgumentParser) -> Callable[..., argparse.Action]:
    """Add the flags that select the cluster. Returns the function that adds flags to the parser."""
    parser.add_argument("--name", default="default", help="which cluster (default: default)")
    add_state_dir(parser.add_argument)
    return parser.add_argument


def add_state_dir(add: Callable[..., argparse.Action]) -> None:
    text = "holds one folder per cluster (default: $XDG_STATE_HOME/jobset-devcluster)"
    add("--state-dir", type=Path, metavar="DIR", help=text)


def _reporting(handler: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        try:
            return handler(arguments)
        except DevclusterError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2 if isinstance(error, UsageError) else 1
        except KeyboardInterrupt:
            print("interrupted: what was started is stopped again", file=sys.stderr)
            return 1

    return run
