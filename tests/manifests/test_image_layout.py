"""The OCI image layout that `docker/rootfs.sh image` writes, read back as a registry's client does."""

import io
import os
import re
import tarfile
from pathlib import Path

import pytest

from dev.hack import image_layout
from tests.support.image_layouts import read, same, unpack

LABELS = {"title", "description", "version", "revision", "created", "source", "licenses"}
DOCKERFILE = image_layout.DOCKERFILE.read_text(encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small file system with all that the real one has: programs, links, folders for everybody, long names."""
    root = tmp_path / "root"
    (root / "opt" / ("long-" * 40)).mkdir(parents=True)
    (root / "manager").write_text("#!/usr/bin/python3\n")
    (root / "manager").chmod(0o755)
    (root / "opt" / ("long-" * 40) / "é").write_bytes(bytes(range(256)) * 400)
    (root / "lib").symlink_to("usr/lib")
    os.link(root / "manager", root / "opt" / "again")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    return root


def write(root: Path, layout: Path, **environment: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SOURCE_DATE_EPOCH", "REVISION", "SOURCE"):
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        assert image_layout.main([str(root), str(layout)]) == 0
    return layout


def members(content: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return archive.getmembers()


def test_the_layer_unpacks_to_the_same_files(root, tmp_path):
    _, content, _ = read(write(root, tmp_path / "layout"))
    unpacked = unpack(content, tmp_path / "unpacked")
    same(root, unpacked)


def test_nothing_in_the_layer_tells_who_built_it_and_when(root, tmp_path):
    _, content, config = read(write(root, tmp_path / "layout", SOURCE_DATE_EPOCH="86400"))
    found = members(content)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in found} == {(0, 0, "", "", 86400)}
    names = [Path(member.name) for member in found]
    assert names == sorted(names)
    assert config["created"] == config["history"][0]["created"] == "1970-01-02T00:00:00Z"


def test_the_same_files_give_the_same_bytes(root, tmp_path):
    one = write(root, tmp_path / "one")
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    other = write(root, tmp_path / "other")
    same(one, other)
    (root / "more").touch()
    assert (write(root, tmp_path / "more") / "index.json").read_bytes() != (one / "index.json").read_bytes()


def test_the_configuration_is_that_of_the_dockerfile(root, tmp_path):
    manifest, _, config = read(write(root, tmp_path / "layout", REVISION="0123abcd", SOURCE="https://example.com/r"))
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == ["/manager"]
    assert config["config"]["ExposedPorts"].keys() == {"9443/tcp", "8443/tcp", "8081/tcp"}
    labels = config["config"]["Labels"]
    assert manifest["annotations"] == labels
    assert labels.keys() == {f"org.opencontainers.image.{name}" for name in LABELS}
    assert labels["org.opencontainers.image.revision"] == "0123abcd"
    assert labels["org.opencontainers.image.source"] == "https://example.com/r"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", labels["org.opencontainers.image.version"])


def test_an_old_layout_is_not_written_over(root, tmp_path):
    write(root, tmp_path / "layout")
    with pytest.raises(SystemExit, match="is not empty"):
        write(root, tmp_path / "layout")


@pytest.mark.parametrize(("target", "name"), [("", "jobset"), ("agent", "jobset-in-place-restart-agent")])
def test_each_image_has_the_labels_of_the_oci_annotations(target, name):
    arguments = {key: f"the {key}" for key in ("VERSION", "REVISION", "CREATED", "SOURCE", "PYTHON_IMAGE")}
    labels = image_layout.config_of_last_stage(image_layout.cut_after(DOCKERFILE, target), arguments)["Labels"]
    given = {key.removeprefix("org.opencontainers.image."): value for key, value in labels.items()}
    assert labels["org.opencontainers.image.title"] == name
    assert given.pop("base.name", None) == ("the PYTHON_IMAGE" if "agent" in name else None)
    assert given.keys() == LABELS
    for key in ("version", "revision", "created", "source"):
        assert given[key] == f"the {key.upper()}"
