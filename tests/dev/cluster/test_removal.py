"""A state folder is removed whole, whichever process removes it and whenever that is killed."""

import contextlib
import functools
import os

import pytest

from dev.cluster import supervisor
from dev.cluster.cluster import down
from dev.cluster.real import cgroups
from dev.cluster.real.layout import RealNode
from dev.cluster.spec import Layout


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("by", ["down", "supervisor"])
def test_a_removal_that_was_killed_at_any_step_is_finished_by_down(tmp_path, monkeypatch, by):
    layout, allowed, killed = Layout(tmp_path / "one"), 0, True
    remove = {"down": lambda: down("one", state_root=tmp_path), "supervisor": lambda: supervisor.remove_folder(layout)}
    while killed:
        for file in (
            layout.status,
            layout.pki / "ca.crt",
            layout.record,
            layout.etcd / "member/wal",
            layout.kubeconfig,
        ):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}")
        left = allowed

        def counted(act, *arguments, **options):
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            act(*arguments, **options)

        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            for name in ("unlink", "rmdir"):
                patch.setattr(os, name, functools.partial(counted, getattr(os, name)))
            remove[by]()
        killed = left < 0
        down("one", state_root=tmp_path)
        assert not layout.root.exists(), f"after {allowed} steps"
        allowed += 1
    assert allowed > 8, "files and folders"


def test_cgroups_of_a_node_that_was_killed_while_it_made_them_are_removed(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("cpu", "memory")]
    hierarchies = [cgroups.Hierarchy(1, folder.name, folder, folder) for folder in folders]
    monkeypatch.setattr(cgroups, "own_hierarchies", lambda: hierarchies)
    layout = Layout(tmp_path / "one")
    RealNode(layout, 0).folder.mkdir(parents=True)
    folders[0].mkdir()  # making that of the second hierarchy fails
    with pytest.raises(FileNotFoundError):
        cgroups.create_cgroups(RealNode(layout, 0))
    assert len(list(folders[0].iterdir())) == 1
    layout.record.write_text("{}")
    down("one", state_root=tmp_path)
    assert list(folders[0].iterdir()) == []
