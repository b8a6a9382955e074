"""The command `jobset completion`, and completions of commands, flags and names of JobSets.

The command prints a shell function, which runs `jobset` with variables of argcomplete each time Tab is pressed. For
`kubectl jobset`, kubectl runs the program `kubectl_complete-jobset`.
"""

import argparse
import io
import os
import shlex
from collections.abc import Sequence

from cli.commands import Commands, add_command

SHELLS = ("bash", "zsh", "fish")
COMPLETE_FILES, COMPLETE_NOTHING = ":0", ":4"
"""Directives for kubectl's shell completion (cobra's Default and NoFileComp), the last line of an answer."""
NAMES_TIMEOUT = 2.0
"""Seconds for reading names from a cluster, while the user waits at the prompt."""

EXAMPLES = """examples:
  source <(%(prog)s bash)                                      this shell; for all: put the line into ~/.bashrc
  source <(%(prog)s zsh)                                       this shell; for all: put the line into ~/.zshrc, after
                                                               autoload -U compinit && compinit
  %(prog)s fish > ~/.config/fish/completions/jobset.fish       all shells from now on

It completes commands, flags, files, and the names of JobSets of the namespace that -n or the context names."""


def add_completion(commands: Commands) -> None:
    """Register the command `completion`."""
    description = "Print the code that lets a shell complete commands, flags and names of JobSets."
    parser = add_command(commands, "completion", EXAMPLES, description)
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads it")
    parser.set_defaults(handler=_print)


def kubectl_completions(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """The completions of the last word for kubectl, which runs `kubectl_complete-jobset WORDS`.

    Each line is a completion, with its description after a tab. The last line is a directive that lets the shell
    complete file names only if there are no completions.
    """
    from argcomplete.completers import SuppressCompleter  # noqa: PLC0415 (only for completions)
    from argcomplete.finders import CompletionFinder  # noqa: PLC0415 (only for completions)

    *before, last = words or ("",)
    line = f"{shlex.join(['jobset', *before])} {last}"
    variables = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_DFS": "\t", "_ARGCOMPLETE_SHELL": "fish"}
    os.environ.update(variables, COMP_LINE=line, COMP_POINT=str(len(line)))
    completions = io.StringIO()
    CompletionFinder()(
        parser,
        always_complete_options=False,
        default_completer=SuppressCompleter(),
        append_space=False,
        exit_method=lambda _: None,
        output_stream=completions,
    )
    return f"{completions.getvalue()}\n{COMPLETE_NOTHING}\n" if completions.getvalue() else f"{COMPLETE_FILES}\n"


def complete_with_names(action: argparse.Action) -> None:
    """Let the shell complete this argument with names of JobSets."""
    action.completer = jobset_names  # type: ignore[attr-defined] # argcomplete looks for it


def jobset_names(parsed_args: argparse.Namespace, **_: object) -> Sequence[str]:
    """The completer of argcomplete for names of JobSets. Empty if the cluster does not answer."""
    import asyncio  # noqa: PLC0415 (only for completions)

    from cli import session  # noqa: PLC0415 (only for completions)
    from kube.errors import KubeError  # noqa: PLC0415 (only for completions)

    async def names() -> list[str]:
        cluster_flags = {name: getattr(parsed_args, name) or "" for name in ("kubeconfig", "context", "namespace")}
        async with asyncio.timeout(NAMES_TIMEOUT), session.connect(session.ClusterFlags(**cluster_flags)) as connection:
            return await session.jobset_names(connection)

    try:
        return asyncio.run(names())
    except (KubeError, session.UsageError, TimeoutError):
        return ()


def _print(parsed: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 (only this command needs it)

    print(shellcode(["jobset"], shell=parsed.shell), end="")  # noqa: T201
    return 0
