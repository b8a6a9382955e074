"""The texts of a container that may contain variables and addresses. Pure."""

from collections.abc import Iterator

from kube.model.field import Path
from webhooks.jobset.templates import Container

_SHELLS = frozenset({"ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "pwsh", "sh", "tcsh", "zsh"})
_SCRIPTS = (".sh", ".bash", ".zsh")


def command_words(path: Path, container: Container) -> Iterator[tuple[Path, str]]:
    """The items of `command` and `args`, with their paths."""
    for key, items in (("command", container.command), ("args", container.args)):
        for word_path, word in path.at(key).each(items):
            if isinstance(word, str):
                yield word_path, word


def variable_values(path: Path, container: Container) -> Iterator[tuple[Path, str]]:
    """The literal values of the variables in `env`, with their paths."""
    for word_path, variable in path.at("env").each(container.env):
        if isinstance(variable.value, str):
            yield word_path.at("value"), variable.value


def is_run_by_shell(container: Container) -> bool:
    """Whether a shell or a script may read `command` and `args`, and interpret `$` in them."""
    return any(isinstance(word, str) and _is_shell(word) for word in (*container.command, *container.args))


def _is_shell(word: str) -> bool:
    name = word[-64:].rpartition("/")[2]
    return name in _SHELLS or name.endswith(_SCRIPTS)
