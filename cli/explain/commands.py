"""Finds the commands in a sentence of an explanation. Each command can then be printed on a line of its own. Pure."""

import re
from collections.abc import Iterator

_COMMAND_START = re.compile(r"(?<![\w/'\"])(?:kubectl|jobset) (?=[-a-z])")
_WORD = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+")
_END_PUNCTUATION = ",;:)"
"""Characters that end a command at the end of a word."""
_END_WORDS = frozenset({
    *("about", "and", "are", "as", "deletes", "else", "for", "gives", "has", "have", "if", "is", "its", "lists"),
    *("names", "on", "once", "or", "say", "says", "show", "shows", "that", "to", "until", "which", "while", "who"),
})  # fmt: skip
"""Words that end a command, since they are never part of a recommended command."""


def commands_in(sentence: str) -> tuple[str, ...]:
    """The commands in a sentence, without repetitions."""
    return tuple(dict.fromkeys(_commands(sentence)))


def _commands(sentence: str) -> Iterator[str]:
    position = 0
    while start_match := _COMMAND_START.search(sentence, position):
        start = end = start_match.start()
        for word in _WORD.finditer(sentence, start):
            if word[0] in _END_WORDS or sentence[end : word.start()].strip():
                break
            end = word.end() - (len(word[0]) - len(word[0].rstrip(_END_PUNCTUATION)))
            if end < word.end():
                break
        position = max(end, start_match.end())
        yield sentence[start:end]
