"""Reads the only object of a manifest's text, with the lines of its fields."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobset_client.documents import MAX_TEXT, Document, documents
from jobset_client.errors import UnreadableError
from jobset_client.source import Source
from jobset_client.tree import Fault
from jobset_client.words import as_json, count_noun, cut_list, in_lines, path_text

_LONGEST_PATH = 255
_TEMPLATE_HINT = "{{ }} is a template (Helm, Argo): render it first"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The value of a text with one document."""

    document: Document

    def line(self, path: Sequence[str | int]) -> int:
        """The line of the field, or of its innermost parent that exists."""
        location, _ = self.document.location.nearest(path)
        return _line(self.document.source, (location.key or location.span).start)


def read_manifest(text: str | bytes) -> Manifest:
    """The only non-empty document of a text. Raises `UnreadableError`."""
    if not isinstance(text, str | bytes):
        raise UnreadableError(
            'this is not the text of a manifest; read the file first: from_yaml(Path("jobset.yaml").read_text())'
        )
    if len(text) > MAX_TEXT:
        raise UnreadableError(f"the text is longer than {MAX_TEXT >> 20} MiB: no cluster stores such a manifest")
    try:
        source = Source("", text.decode() if isinstance(text, bytes) else text)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"the text cannot be read: byte {error.start} is not UTF-8") from error
    filled_documents = [each for each in documents(source) if each.broken or each.value is not None]
    faults = [fault for each in filled_documents for fault in each.faults if fault.kind != "duplicate-key"]
    if faults:
        raise UnreadableError(_fault_message(source, faults[0]))
    if len(filled_documents) != 1:
        lines = ", ".join(str(_line(source, each.location.span.start)) for each in filled_documents)
        raise UnreadableError(
            f"the text holds {count_noun(len(filled_documents), 'document')}, which begin in lines {lines};"
            " from_yaml takes one: split it at the lines `---`"
            if filled_documents
            else "the text holds no document: it is empty, or has only comments"
        )
    _refuse_name_of_file(filled_documents[0].value)
    if repeated_keys := [_repeated_key(source, fault) for fault in filled_documents[0].faults]:
        raise UnreadableError(in_lines("the text has a key twice", cut_list(repeated_keys)))
    return Manifest(filled_documents[0])


def _fault_message(source: Source, fault: Fault) -> str:
    line, column = source.position(min(fault.span.start, len(source.text)))
    path = f"{path_text(fault.path)}: " if fault.path else ""
    hint = _TEMPLATE_HINT if fault.is_template else fault.hint
    return f"line {line}, column {column}: cannot be read: {path}{fault.problem}" + (f"; {hint}" if hint else "")


def _repeated_key(source: Source, fault: Fault) -> str:
    first = _line(source, fault.first_span.start) if fault.first_span else 0
    return f"line {_line(source, fault.span.start)}: {as_json(fault.value)} stands in line {first}, too: remove one"


def _line(source: Source, offset: int) -> int:
    return source.position(min(offset, len(source.text)))[0]


def _refuse_name_of_file(value: object) -> None:
    if isinstance(value, str) and len(value) <= _LONGEST_PATH and value.endswith((".yaml", ".yml", ".json")):
        raise UnreadableError(f"this is the name of a file, not what is in it: from_yaml(Path({value!r}).read_text())")
