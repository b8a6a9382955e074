"""Manifests: the one object of a text, and the lines of its fields; what cannot be read is said with its line."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from jobset_client.errors import UnreadableError
from jobset_client.words import counted, in_lines, limited, one_line, shown

_LONGEST_PATH = 255
MAX_TEXT = 16 << 20
"""Characters, or bytes, of a text."""
MAX_DEPTH = 200
"""Mappings and lists inside each other."""
MAX_COST = 500_000
"""Values in one document, aliases expanded; 32 characters of text count as one more. As on the command line."""
_TEXT_UNIT = 32
_HINTS = (
    ("mapping values are not allowed", "quote a value that contains ': ', or check the indentation"),
    ("could not find expected ':'", "write `key: value`, with a space after the colon"),
    ("cannot start any token", "quote a value that starts with one of @ ` %, and indent with spaces"),
    ("expected <block end>", "check the indentation against the lines above, and that quotes are closed"),
    ("expected ',' or", "put a comma before it, or close the bracket"),
    ("expected the node content", "write a value, or close the bracket"),
    ("unexpected end of stream", "close the quote"),
    ("unknown escape", "double the backslash, or use single quotes"),
    ("expected '<document start>'", "put `---` between documents"),
    ("undefined alias", "quote a value that starts with *"),
    ("special characters", "remove the character"),
)
_TEMPLATE_HINT = "{{ }} is a template (Helm, Argo): render it first"
_PLAIN = {
    "found unhashable key": "a key must be a text",
    "<stream end>": "end of the text",
    "<block end>": "end of the block",
    "<document start>": "start of a document",
}
"""What the parser says, and what a person who writes YAML understands."""


class _Loader(yaml.SafeLoader):
    """Leaves times as text, as the API has them."""

    yaml_implicit_resolvers = {
        first: [one for one in several if one[0] != "tag:yaml.org,2002:timestamp"]
        for first, several in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True, slots=True)
class Document:
    """What a text holds."""

    value: Any
    node: yaml.Node
    repeated: Sequence[str] = ()
    """Keys that a mapping has twice, each in words."""

    def line(self, path: Sequence[str | int]) -> int:
        """The line of the field, or of the innermost one around it that there is."""
        node, line = self.node, self.node.start_mark.line
        for part in path:
            if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line
                continue
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            found = next((pair for pair in pairs if pair[0].value == str(part)), None)
            if found is None:
                break
            key, node = found
            line = key.start_mark.line
        return int(line) + 1


def document(text: str | bytes) -> Document:
    """The one document of a text that holds something. Raises `UnreadableError`."""
    if not isinstance(text, str | bytes):
        raise UnreadableError(
            'this is not the text of a manifest; read the file first: from_yaml(Path("jobset.yaml").read_text())'
        )
    if len(text) > MAX_TEXT:
        raise UnreadableError(f"the text is longer than {MAX_TEXT >> 20} MiB: no cluster stores such a manifest")
    try:
        whole = text.decode() if isinstance(text, bytes) else text
        found = _documents(whole)
    except UnreadableError:
        raise
    except UnicodeDecodeError as error:
        raise UnreadableError(f"the text cannot be read: byte {error.start} is not UTF-8") from error
    except yaml.MarkedYAMLError as error:
        raise UnreadableError(_marked(error, whole)) from error
    except yaml.reader.ReaderError as error:
        before = whole[: error.position]
        where = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
        raise UnreadableError(f"{where}: cannot be read: {error.reason}; {_hint(error.reason, '')}") from error
    except (ValueError, RecursionError) as error:  # such as a time of day or a number that is none; or too deep
        raise UnreadableError("the text cannot be read: a value in it is too deep or of a wrong form") from error
    if len(found) != 1:
        lines = ", ".join(str(one.node.start_mark.line + 1) for one in found)
        raise UnreadableError(
            f"the text holds {counted(len(found), 'document')}, which begin in lines {lines}; from_yaml takes one:"
            " split it at the lines `---`"
            if found
            else "the text holds no document: it is empty, or has only comments"
        )
    _refuse_name_of_file(found[0].value)
    if found[0].repeated:
        raise UnreadableError(in_lines("the text has a key twice", limited(found[0].repeated)))
    return found[0]


def reason(error: yaml.YAMLError) -> str:
    """What is wrong with a text that is no YAML, in one line without its place."""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
    for said, meant in _PLAIN.items():
        problem = problem.replace(said, meant)
    return one_line(problem)


def _documents(text: str) -> list[Document]:
    loader = _Loader(text)
    try:
        found = []
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            _measure(node, 0, {})
            repeated = [*_repeated(node)]  # before merge keys (<<) are replaced by what they merge
            value = loader.construct_document(node)
            if value is not None:
                found.append(Document(value, node, repeated))
        return found
    finally:
        loader.dispose()


def _measure(node: yaml.Node, depth: int, costs: dict[int, int | None]) -> int:
    """What the node costs with its aliases expanded, before anything is built of it. Raises `UnreadableError`.

    `costs`: those of nodes that are known; None for those that this one is inside of.
    """
    where = f"line {node.start_mark.line + 1}: cannot be read: "
    known = costs.get(id(node), 0)
    if known is None:
        raise UnreadableError(f"{where}an anchor contains itself; an alias cannot stand in its own anchor")
    if known:
        return known
    if depth > MAX_DEPTH:
        raise UnreadableError(f"{where}more than {MAX_DEPTH} mappings and lists inside each other; flatten it")
    cost = 1
    if isinstance(node, yaml.ScalarNode):
        cost += len(node.value) // _TEXT_UNIT
    else:
        costs[id(node)] = None
        pairs = node.value if isinstance(node, yaml.MappingNode) else ((each,) for each in node.value)
        for each in itertools.chain.from_iterable(pairs):
            cost += _measure(each, depth + 1, costs)
    if cost > MAX_COST:
        raise UnreadableError(f"{where}it holds more than {MAX_COST} values; split it, use fewer aliases")
    costs[id(node)] = cost
    return cost


def _repeated(root: yaml.Node) -> Iterator[str]:
    """Keys that a mapping has twice: YAML keeps the last one without a word, and the API server refuses them."""
    left, seen = [root], set[int]()
    while left:
        node = left.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))  # an alias leads to the same node
        if not isinstance(node, yaml.MappingNode):
            left += reversed(node.value)
            continue
        first: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in first:
                yield f"line {line}: {shown(key.value)} stands in line {first[key.value]}, too: remove one"
            first[key.value] = line
        left += reversed([value for _, value in node.value])


def _marked(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    if error.context_mark and mark and mark.index >= len(text.rstrip()):
        mark = error.context_mark  # the problem is only noticed at the end
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    return f"{where}cannot be read: {reason(error)}; {_hint(str(error.problem), line)}"


def _hint(problem: str, line: str) -> str:
    if "{{" in line:
        return _TEMPLATE_HINT
    return next((hint for words, hint in _HINTS if words in problem), "compare it with a manifest that works")


def _refuse_name_of_file(value: Any) -> None:
    if isinstance(value, str) and len(value) <= _LONGEST_PATH and value.endswith((".yaml", ".yml", ".json")):
        raise UnreadableError(f"this is the name of a file, not what is in it: from_yaml(Path({value!r}).read_text())")
