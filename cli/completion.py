"""The command `jobset completion`, and the completions: commands, flags and names of JobSets.

The printed function runs `jobset` with argcomplete's variables set each time Tab is pressed. For `kubectl jobset`
kubectl runs the program `kubectl_complete-jobset`.
"""

import argparse
import io
import os
import shlex
from collections.abc import Sequence

from cli.commands import Commands, add_command

SHELLS = ("bash", "zsh", "fish")
FILES, NO_FILES = ":0", ":4"
"""The last line of an answer to kubectl: a directive of its shell completion (cobra's Default and NoFileComp)."""
NAMES_TIMEOUT = 2.0
"""Seconds for the names of a cluster: the user waits at the prompt."""

EXAMPLES = """examples:
  source <(%(prog)s bash)                                      this shell; for all: put the line into ~/.bashrc
  source <(%(prog)s zsh)                                       this shell; for all: put the line into ~/.zshrc, after
                                                               autoload -U compinit && compinit
  %(prog)s fish > ~/.config/fish/completions/jobset.fish       all shells from now on

It completes commands, flags, files, and the names of JobSets of the namespace that -n or the context names."""


def add_completion(commands: Commands) -> None:
    """Register `completion`."""
    parser = add_command(
        commands,
        "completion",
        EXAMPLES,
        "Print the code that lets a shell complete commands, flags and names of JobSets.",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads it")
    parser.set_defaults(handler=_print)


def answer(parser: argparse.ArgumentParser) -> None:
    """Print the completions, and end the process."""
    import argcomplete  # noqa: PLC0415 (only where a shell asks)

    argcomplete.autocomplete(parser)


def answer_kubectl(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """The answer to kubectl, which runs `kubectl_complete-jobset WORDS` for completions of the last word.

    One completion a line, with its description after a tab; the last line is a directive for the shell: complete file
    names only if there is nothing else.
    """
    from argcomplete.completers import SuppressCompleter  # noqa: PLC0415 (only where a shell asks)
    from argcomplete.finders import CompletionFinder  # noqa: PLC0415 (the same)

    *before, last = words or ("",)
    line = f"{shlex.join(['jobset', *before])} {last}"
    how = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_DFS": "\t", "_ARGCOMPLETE_SHELL": "fish"}
    os.environ.update(how, COMP_LINE=line, COMP_POINT=str(len(line)))
    found = io.StringIO()
    CompletionFinder()(
        parser,
        always_complete_options=False,
        default_completer=SuppressCompleter(),
        append_space=False,
        exit_method=lambda _: None,
        output_stream=found,
    )
    return f"{found.getvalue()}\n{NO_FILES}\n" if found.getvalue() else f"{FILES}\n"


def completes_names(action: argparse.Action) -> None:
    """Let the shell complete this argument with names of JobSets."""
    action.completer = jobset_names  # type: ignore[attr-defined] # argcomplete looks for it


def jobset_names(parsed_args: argparse.Namespace, **_: object) -> Sequence[str]:
    """Names of the JobSets that NAME may mean: a completer of argcomplete. None if the cluster does not answer."""
    import asyncio  # noqa: PLC0415 (only where a shell asks)

    from cli import session  # noqa: PLC0415 (as above)
    from kube.errors import KubeError  # noqa: PLC0415 (as above)

    async def names() -> list[str]:
        target = {name: getattr(parsed_args, name) or "" for name in ("kubeconfig", "context", "namespace")}
        async with asyncio.timeout(NAMES_TIMEOUT), session.connect(**target) as to:
            return await session.names(to)

    try:
        return asyncio.run(names())
    except (KubeError, session.UsageError, TimeoutError):
        return ()


def _print(parsed: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 (only this command needs it)

    print(shellcode(["jobset"], shell=parsed.shell), end="")  # noqa: T201
    return 0
