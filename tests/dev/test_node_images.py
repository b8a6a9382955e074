"""The images for real nodes are made again when what they are made from has changed, and not otherwise."""

from pathlib import Path

import pytest

from dev.hack import node_images


@pytest.fixture
def made(tmp_path: Path, monkeypatch) -> list[str]:
    """The names of the folders that are made, of sources in a folder of the test."""
    names = []

    def make(folder: Path) -> None:
        (folder / "root").mkdir()
        names.append(folder.name)

    for path in ("docker/Dockerfile.dockerignore", "agent/agent.py", "api/api.py"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text("!api\n")
    monkeypatch.setattr(node_images, "ROOT", tmp_path)
    monkeypatch.setattr(node_images, "DOCKER", tmp_path / "docker")
    monkeypatch.setattr(node_images, "_make_bases", make)
    monkeypatch.setattr(node_images, "_make_manager", make)
    return names


@pytest.mark.parametrize(
    ("changed", "again"),
    [("api/api.py", ["manager.tmp"]), ("agent/agent.py", ["bases.tmp"]), ("docker/x", ["bases.tmp", "manager.tmp"])],
)
def test_only_what_is_made_from_a_changed_file_is_made_again(made, tmp_path, changed, again):
    first = node_images.locate_images(tmp_path)
    assert made == ["bases.tmp", "manager.tmp"]
    assert node_images.locate_images(tmp_path) == first
    (tmp_path / changed).write_text("changed")
    second = node_images.locate_images(tmp_path)
    assert made[2:] == again
    assert second != first


def test_old_versions_leave_the_cache(made, tmp_path):
    for number in range(6):
        (tmp_path / "api/api.py").write_text(str(number))
        last = node_images.locate_images(tmp_path)
    versions = set((tmp_path / "images").glob("manager-*"))
    assert len(versions) == node_images.KEPT_VERSIONS
    assert last[node_images.IMAGE].parent in versions
