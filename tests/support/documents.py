"""Reads YAML and JSON texts as `jobset validate` does."""

from authoring.documents import Document, documents
from jobset_client.source import Source


def read(text: str) -> list[Document]:
    return list(documents(Source("f.yaml", text)))


def only(text: str) -> Document:
    (document,) = read(text)
    return document
