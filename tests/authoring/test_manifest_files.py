"""Which files and objects `-f` names, and which of them are JobSets."""

import os
import socket
from pathlib import Path
from threading import Thread

import pytest

from authoring.findings import locate
from authoring.manifest_files import Inputs
from kube.model.field import ErrorType, FieldError
from kube.model.field import Path as FieldPath


def names_of(inputs: Inputs) -> list[str]:
    return [document.value["metadata"]["name"] for document in inputs.documents()]


def jobset_text(name: str) -> str:
    return f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: {name}}}\n"


def test_a_directory_stands_for_its_manifests_in_order(tmp_path: Path):
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt"):
        (tmp_path / name).write_text(jobset_text(name[0]))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "d.yaml").write_text(jobset_text("d"))
    assert names_of(Inputs([str(tmp_path)])) == ["a", "b", "c"]
    assert names_of(Inputs([str(tmp_path)], recursive=True)) == ["a", "b", "c", "d"]


def test_other_kinds_are_counted_and_passed_over(tmp_path: Path):
    file = tmp_path / "all.yaml"
    file.write_text("kind: ConfigMap\n---\n" + jobset_text("a") + "---\nreplicas: 3\n")
    inputs = Inputs([str(file)])
    assert names_of(inputs) == ["a"]
    assert (inputs.files, inputs.other_objects, inputs.problems) == (1, 2, [])


@pytest.mark.parametrize("kind", ["List", "JobSetList"])
def test_lists_are_taken_apart_and_places_kept(tmp_path: Path, kind: str):
    file = tmp_path / "list.yaml"
    items = "".join(f"- kind: JobSet\n  metadata: {{name: {name}}}\n" for name in "ab")
    file.write_text(f"apiVersion: v1\nkind: {kind}\nitems:\n{items}- kind: Pod\n")
    inputs = Inputs([str(file)])
    first, second = inputs.documents()
    assert (first.item, second.item, second.value["metadata"]["name"], inputs.other_objects) == (0, 1, "b", 1)
    found = locate(second, FieldError(FieldPath(("metadata", "name")), ErrorType.INVALID))
    assert (found.line, found.column) == (7, 20)


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: Jobset\n",
        "apiVersion: jobset.x-k8s.io/v1alpha1\nkind: JobSet\n",
        "apiVersion: jobset.x-k8s.io/v1alpha2\n",
        "spec: {replicatedJobs: []}\n",
        "- a\n- b\n",
        "text\n",
    ],
)
def test_what_may_have_been_meant_for_a_jobset_is_not_passed_over(tmp_path: Path, text: str):
    file = tmp_path / "a.yaml"
    file.write_text(text)
    inputs = Inputs([str(file)])
    assert len(list(inputs.documents())) == 1
    assert inputs.other_objects == 0


def test_files_that_cannot_be_read_are_problems_and_the_others_are_read(tmp_path: Path):
    (tmp_path / "good.yaml").write_text(jobset_text("a"))
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9\n")
    (tmp_path / "utf16.yaml").write_bytes(jobset_text("b").encode("utf-16"))
    (tmp_path / "big.yaml").write_bytes(b"#" * (2**24 + 1))
    (tmp_path / "empty").mkdir()
    names = [*(str(tmp_path / n) for n in ("latin.yaml", "utf16.yaml", "big.yaml", "empty", "none.yaml", "good.yaml"))]
    inputs = Inputs([*names, "https://example.com/a.yaml"])
    assert names_of(inputs) == ["a"]
    assert inputs.files == 1
    expected = ["not UTF-8 text (byte 0xe9 in line 2)", "UTF-16", "16 MiB", "no *.yaml", "no such file", "curl"]
    assert len(inputs.problems) == len(expected)
    for problem, words in zip(inputs.problems, expected, strict=True):
        assert words in problem


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path):
    file = tmp_path / "a.json"
    file.write_bytes(b"\xef\xbb\xbf" + b'{"kind": "JobSet", "metadata": {"name": "a"}}')
    assert names_of(Inputs([str(file)])) == ["a"]


def test_pipes_and_sockets_in_a_directory_are_problems_and_are_not_opened(tmp_path: Path):
    (tmp_path / "good.yaml").write_text(jobset_text("a"))
    (tmp_path / "link.yaml").symlink_to("good.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.yaml"))
    inputs = Inputs([str(tmp_path)])
    assert names_of(inputs) == ["a", "a"]
    said = "a pipe, socket or device, not a regular file: remove it, or name it to have it read"
    assert inputs.problems == [f"{tmp_path / name}: {said}" for name in ("pipe.yaml", "socket.yaml")]


def test_a_pipe_that_is_named_is_read(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=[jobset_text("a")], daemon=True)
    writer.start()
    assert names_of(Inputs([str(pipe)])) == ["a"]
    writer.join()
