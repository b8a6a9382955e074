"""Finds and reads the files that the user names, and selects the JobSets, or objects of another kind.

Files are read one at a time, and only up to a limit. A file that cannot be read is a problem, not a fault of a JobSet.
Problems and faults have different exit codes.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from authoring.documents import Document, Fault, documents
from authoring.object_checks import is_jobset
from authoring.workflows import jobsets_in_workflow
from jobset_client.documents import MAX_TEXT
from jobset_client.source import Source
from kube.model.field import ErrorType, Rule
from kube.model.field import Path as FieldPath
from kube.model.jsontree import dig
from kube.model.meta import JSON
from kube.resources import RESOURCE_CLAIM_TEMPLATES
from policy.judged import Namespace

Named = tuple[str, str, str]
"""Kind, namespace (may be "") and name of an object."""
SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "<stdin>"

NOT_AN_OBJECT = Rule(
    "not-an-object",
    ErrorType.TYPE_INVALID,
    "a manifest is a mapping with apiVersion, kind, metadata and spec, and this is {what}",
    "put documents behind each other with `---` between them, or into the items of a List",
    "API: every object has apiVersion and kind",
)


class FileError(Exception):
    """A file cannot be read. The text is one line for the user."""


@dataclass(slots=True)
class Inputs:
    """The files to read, the objects to select, and counts of what was read."""

    names: Sequence[str]
    recursive: bool = False
    wanted: Callable[[JSON], bool] = is_jobset
    allow_none: bool = False
    """Whether a directory without manifests is not a problem."""
    files: int = 0
    other_objects: int = 0
    other_names: set[Named] = field(default_factory=set)
    """The names of all objects of other kinds that have been read."""
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    """The Namespaces among the objects of other kinds, by name."""
    problems: list[str] = field(default_factory=list)

    def documents(self) -> Iterator[Document]:
        """Objects for which `wanted` is true, and documents that cannot be parsed or are not objects."""
        for name in self.names:
            try:
                paths = list(_expand(name, recursive=self.recursive, allow_none=self.allow_none))
            except FileError as error:
                self.problems.append(str(error))
                continue
            for path in paths:
                yield from self._documents_of_file(path, is_named=path == name)

    def _documents_of_file(self, path: str, *, is_named: bool) -> Iterator[Document]:
        try:
            source = read(path) if is_named else _read_listed(path)
        except FileError as error:
            self.problems.append(str(error))
            return
        self.files += 1
        for document in documents(source):
            for item in _items(document):
                if _is_reported(item, self.wanted):
                    yield item
                else:
                    yield from jobsets_in_workflow(item)
                    self.other_objects += 1
                    self.other_names.update(_object_names(item.value))
                    if item.value.get("kind") == "Namespace":
                        namespace = _namespace(item.value)
                        self.namespaces[namespace.name] = namespace


def _object_names(value: JSON) -> Iterator[Named]:
    """The name of an object, and of the ResourceClaimTemplate that a ComputeDomain creates."""
    kind, namespace, name = value.get("kind"), dig(value, "metadata", "namespace"), dig(value, "metadata", "name")
    yield str(kind), str(namespace or ""), str(name)
    if kind == "ComputeDomain" and (template_name := dig(value, "spec", "channel", "resourceClaimTemplate", "name")):
        yield RESOURCE_CLAIM_TEMPLATES.kind, str(namespace or ""), str(template_name)


def _namespace(value: JSON) -> Namespace:
    """A Namespace with the fields that policies read."""
    name, labels, annotations = (dig(value, "metadata", key) for key in ("name", "labels", "annotations"))
    return Namespace(str(name), _texts(labels), _texts(annotations))


def _texts(value: object) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {key: text for key, text in pairs if isinstance(text, str)}


def read(path: str) -> Source:
    """The text of a file, or of standard input for `-`. Raises `FileError`."""
    name = STDIN if path == "-" else path
    try:
        data = _read_limited(path)
    except OSError as error:
        raise FileError(f"{name}: {error.strerror or error}") from error
    if len(data) > MAX_TEXT:
        raise FileError(f"{name}: more than {MAX_TEXT >> 20} MiB: split it, or leave it out")
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        guess = "it looks like UTF-16; " if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else ""
        byte = f"byte 0x{data[error.start]:02x} in line {line}"
        raise FileError(f"{name}: not UTF-8 text ({byte}): {guess}save it as UTF-8") from error


def _read_listed(path: str) -> Source:
    """The text of a file that was found in a directory.

    Pipes and devices are refused, since reading may never end. They are read only if the user names them.
    """
    if not Path(path).is_file() and Path(path).exists():
        raise FileError(f"{path}: a pipe, socket or device, not a regular file: remove it, or name it to have it read")
    return read(path)


def _read_limited(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(MAX_TEXT + 1)
    with Path(path).open("rb") as file:
        return file.read(MAX_TEXT + 1)


def _expand(name: str, *, recursive: bool, allow_none: bool) -> Iterator[str]:
    """The files that an argument stands for: the file itself, or the manifests in a directory."""
    if name == "-":
        yield name
        return
    if name.startswith(("http://", "https://")):
        raise FileError(f"{name}: URLs are not read: curl -fsSL URL | jobset validate -f -")
    path = Path(name)
    try:
        kind = path.stat().st_mode
    except OSError as error:
        raise FileError(f"{name}: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISDIR(kind):
        yield name
        return
    manifests = list(_manifests(path, recursive=recursive))
    if not (manifests or allow_none):
        deeper = "" if recursive else "; -R looks into its subdirectories"
        raise FileError(f"{name}: no {', '.join('*' + suffix for suffix in SUFFIXES)} in this directory{deeper}")
    yield from manifests


def _manifests(folder: Path, *, recursive: bool) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise FileError(f"{error.filename}: {error.strerror}") from error

    for directory, subfolders, files in os.walk(folder, onerror=fail):
        subfolders.sort()
        yield from (str(Path(directory, file)) for file in sorted(files) if file.endswith(SUFFIXES))
        if not recursive:
            return


def _items(document: Document) -> Iterator[Document]:
    """The document, or a document for each item of a List."""
    value = document.value
    is_list = isinstance(value, dict) and isinstance(value.get("kind"), str) and value["kind"].endswith("List")
    items = value.get("items") if is_list else None
    if not isinstance(items, list):
        yield document
        return
    if document.faults:
        yield replace(document, value=None, broken=True)
    locations = document.location.members["items"].members
    for index, item in enumerate(items):
        yield replace(document, value=item, location=locations[index], faults=[], item=index)


def _is_reported(document: Document, wanted: Callable[[JSON], bool]) -> bool:
    """Whether the document is wanted, cannot be parsed, or is not an object, which is added to its faults."""
    value = document.value
    if document.broken or not isinstance(value, dict):
        if not document.broken:
            error = NOT_AN_OBJECT.at(FieldPath(), what=_type_name(value))
            document.faults.append(Fault(document.location.span, replace(error, verbatim=error.detail)))
        return True
    return wanted(value)


def _type_name(value: Any) -> str:
    """The type of a JSON value for messages, with its article."""
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
