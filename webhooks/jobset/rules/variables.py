"""Variables in commands and in `env` that are not replaced. Warnings only. Pure.

See docs/reference/validation.md#variables.

Kubernetes replaces `$(NAME)` in `command`, `args` and `env`; only a shell replaces `$NAME`. A variable that is not
replaced stays a text, which is the same in every pod.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice

from api import elastic
from api.elastic_variables import NUMBER_PATH, REPLICAS_VARIABLE
from api.keys import COMPLETION_INDEX
from kube.model.field import FieldError, Path, shorten
from kube.model.suggest import nearest
from webhooks.jobset.rules import MAX_FINDINGS, Source
from webhooks.jobset.rules.command_texts import command_words, is_run_by_shell
from webhooks.jobset.subject import Entry, Subject
from webhooks.jobset.templates import Container

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""The variable that the Job controller adds, as the last one, to containers of an Indexed Job."""
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]{0,127})\)", re.ASCII)
"""`$(NAME)`, or `$$`, which stands for one `$` and is skipped."""
_SHELL_REFERENCE = re.compile(r"\$\$|\$(?:\{([A-Z_][A-Z0-9_]{0,127})\}|([A-Z_][A-Z0-9_]{0,127})(?!\w))", re.ASCII)
_BLANK = re.compile(r"\s")
_PROGRAMS_READING_DOLLAR = frozenset(
    {
        "awk", "envsubst", "eval", "expr", "gawk", "java", "jq", "kubectl", "make", "nsenter", "parallel", "pdsh",
        "perl", "php", "Rscript", "runuser", "screen", "script", "sed", "spark-submit", "srun", "ssh", "su", "tmux",
        "watch", "xargs",
    }
)  # fmt: skip
"""Programs that interpret `$` themselves, or run a shell."""
_PROGRAM_TEXT_FLAGS = frozenset({"-c", "-e", "--eval", "--command"})
"""Flags whose next word is the text of a program."""
_INJECTED_NAME = re.compile(
    r"(?:AWS|AZURE|GOOGLE|HOSTNAME|JOBSET(?!_REPLICAS$)|KUBERNETES|MEGASCALE|NEURON|NVIDIA|TPU)(?:_|$)|.*_(?:SERVICE_HOST|(?:SERVICE_)?PORT(?:_|$))",
    re.ASCII,
)
"""Variables that Kubernetes sets for Services, and variables that webhooks of clouds add to pods."""

_DOCS = Source("docs/reference/validation.md#variables")
UNEXPANDED = _DOCS.warning(
    "command-variable-of-shell",
    "no shell runs this command: the program gets the text {text}",
    "write $({name}), or let sh -c run the line",
)
UNDEFINED = _DOCS.warning("variable-undefined", "$({name}) stays a text: no variable of this name is there", "{guess}")
DEFINED_LATER = _DOCS.warning("variable-later", "$({name}) stays a text: {why}", "{how}")


def check_variables(subject: Subject) -> Iterator[FieldError]:
    """Findings about variables that are not replaced, at most as many as an answer lists."""
    found = (error for entry in subject.entries_with("$") for error in _check_pod(subject, entry))
    yield from islice(found, MAX_FINDINGS)


def _check_pod(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    is_elastic = subject.gates[elastic.GATE] and entry.rjob.elastic is not None
    jobset_variables = {REPLICAS_VARIABLE} if is_elastic else set[str]()
    for path, container in entry.each_container():
        if container.env:
            yield from _check_env(entry, path, container, jobset_variables)
        if container.command or container.args:
            yield from _check_command(entry, path, container, jobset_variables)


def _check_env(entry: Entry, path: Path, container: Container, jobset_variables: set[str]) -> Iterator[FieldError]:
    """Findings about values of variables. A value may refer to earlier variables, and to variables of `envFrom`.

    `jobset_variables`: variables that the JobSet adds after the variables of the template.
    """
    earlier_names: set[str] = set()
    names = {variable.name for variable in container.env}
    for item_path, variable in path.at("env").each(container.env):
        text = variable.value if isinstance(variable.value, str) else ""
        for name in _references(text):
            if name in earlier_names or (name != INDEX_VARIABLE and container.env_from):
                continue
            if name in names and name != variable.name:
                reason, how = "it is defined further down", f"move {name} before this variable"
                yield DEFINED_LATER.at(item_path.at("value"), text, name=name, why=reason, how=how)
            elif name == INDEX_VARIABLE and _is_indexed(entry):
                reason = "the Job controller adds it last"
                how = f"use fieldRef metadata.annotations['{COMPLETION_INDEX}']"
                yield DEFINED_LATER.at(item_path.at("value"), text, name=name, why=reason, how=how)
            elif name in jobset_variables:
                reason, how = "the JobSet adds it last", f"use fieldRef {NUMBER_PATH}"
                yield DEFINED_LATER.at(item_path.at("value"), text, name=name, why=reason, how=how)
            elif not _BLANK.search(text) and not _INJECTED_NAME.match(name):
                yield _undefined_variable(item_path.at("value"), text, name, earlier_names)
        earlier_names.add(variable.name)


def _check_command(entry: Entry, path: Path, container: Container, jobset_variables: set[str]) -> Iterator[FieldError]:
    """Findings about words that no shell reads: in them `$(NAME)` is a variable, and `$NAME` is text."""
    if is_run_by_shell(container):
        return
    defined_names = jobset_variables | {variable.name for variable in container.env}
    defined_names |= {INDEX_VARIABLE} if _is_indexed(entry) else set()
    program_reads_dollar = not container.command or any(
        _program(word) in _PROGRAMS_READING_DOLLAR for word in container.command
    )
    last_word = ""
    for item_path, word in command_words(path, container):
        if "$" in word and not _BLANK.search(word) and last_word not in _PROGRAM_TEXT_FLAGS:
            for name in _references(word):
                may_be_defined = name in defined_names or container.env_from or _INJECTED_NAME.match(name)
                if not may_be_defined and name.isupper():
                    yield _undefined_variable(item_path, word, name, defined_names)
            name = "" if program_reads_dollar else _shell_name(word)
            if name:
                yield UNEXPANDED.at(item_path, word, text=shorten(word, 40), name=name)
        last_word = word


def _references(text: str) -> Iterator[str]:
    """The names in `$(NAME)`, each once."""
    return iter(dict.fromkeys(match[1] for match in _REFERENCE.finditer(text) if match[1]))


def _shell_name(word: str) -> str:
    """The first name that a shell would replace; empty if there is none."""
    return next((match[1] or match[2] for match in _SHELL_REFERENCE.finditer(word) if match[1] or match[2]), "")


def _program(word: object) -> str:
    return word[-64:].rpartition("/")[2] if isinstance(word, str) else ""


def _is_indexed(entry: Entry) -> bool:
    return entry.job.completion_mode != "NonIndexed"


def _undefined_variable(path: Path, text: str, name: str, defined_names: set[str]) -> FieldError:
    return UNDEFINED.at(path, text, name=name, guess=partial(_suggestion, name, sorted(defined_names)))


def _suggestion(name: str, defined_names: list[str]) -> str:
    similar_name = nearest(name, (each for each in defined_names if each != name))
    beginning = f"did you mean $({similar_name})? Else define" if similar_name else "define"
    return f"{beginning} {name} in env before its use, or write $$({name}) if the text is meant"
