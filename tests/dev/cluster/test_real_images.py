"""Images from a folder, a layout and an archive: what a container runtime imports, and under which name."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from dev.cluster.errors import DevclusterError, UsageError
from dev.cluster.real.image import IMAGE_NAME, Image, ImageLayout, write_archive
from dev.cluster.real.load import layout_of
from tests.support.image_layouts import read, same, unpack


@pytest.fixture
def files(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "train").write_text("#!/bin/sh\n")
    (root / "bin" / "train").chmod(0o755)
    return root


def imported(source: Path, name: str, folder: Path) -> Path:
    """The layout in an archive of this source."""
    archive = io.BytesIO()
    with layout_of(source, name) as layout:
        write_archive(layout, name, archive)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as members:
        members.extractall(folder, filter="data")
    return folder


def name_in(layout: Path) -> str:
    [entry] = json.loads((layout / "index.json").read_bytes())["manifests"]
    return str(entry["annotations"][IMAGE_NAME])


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("trainer:v1", "docker.io/library/trainer:v1"),
        ("team/trainer", "docker.io/team/trainer:latest"),
        ("registry.example:5000/team/trainer:v1", "registry.example:5000/team/trainer:v1"),
    ],
)
def test_a_folder_becomes_an_image_of_the_name_that_a_kubelet_asks_for(files, tmp_path, name, stored):
    layout = imported(files, name, tmp_path / "imported")
    assert name_in(layout) == stored
    _, content, config = read(layout)
    same(files, unpack(content, tmp_path / "unpacked"))
    assert config["config"]["Env"] == ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]


def test_a_layout_and_an_archive_of_it_keep_their_content_and_get_the_name(files, tmp_path):
    layout = tmp_path / "layout"
    ImageLayout(layout).write(files, {"User": "1:1"}, Image("a test"))
    from_layout = imported(layout, "trainer:v1", tmp_path / "one")
    with tarfile.open(tmp_path / "image.tar.gz", "w:gz") as archive:
        archive.add(layout, ".")
    from_archive = imported(tmp_path / "image.tar.gz", "trainer:v2", tmp_path / "other")
    assert (name_in(from_layout), name_in(from_archive)) == (
        "docker.io/library/trainer:v1",
        "docker.io/library/trainer:v2",
    )
    same(layout / "blobs", from_layout / "blobs")
    same(layout / "blobs", from_archive / "blobs")


@pytest.mark.parametrize("name", ["Trainer:v1", "trainer:", "https://example.com/trainer", f"a@sha256:{'0' * 64}"])
def test_a_name_that_no_pod_can_ask_for_is_refused(files, name):
    with pytest.raises(UsageError, match="is not usable as the name of an image"):
        imported(files, name, files)


def test_a_source_that_is_no_image_is_named(files, tmp_path):
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(files, ".")
    for source, words in (
        (tmp_path / "nowhere", "neither a folder nor"),
        (tmp_path / "other.tar", "no file oci-layout"),
    ):
        with pytest.raises(DevclusterError, match=words):
            imported(source, "trainer:v1", tmp_path)


def test_two_images_in_one_layout_are_refused(files, tmp_path):
    layout = tmp_path / "layout"
    ImageLayout(layout).write(files, {}, Image("a test"))
    index = json.loads((layout / "index.json").read_text())
    (layout / "index.json").write_text(json.dumps(index | {"manifests": index["manifests"] * 2}))
    with pytest.raises(DevclusterError, match="holds 2 images"):
        imported(layout, "trainer:v1", tmp_path)
