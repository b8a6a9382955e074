"""`make uninstall` deletes no JobSet that its user has not seen: dev/hack/uninstall.sh with a kubectl that answers as told."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "dev" / "hack" / "uninstall.sh"
SETS = [f"team-a      train-{number:02}   {'Completed' if number == 0 else '<none>'}" for number in range(25)]
HEADINGS = "NAMESPACE   NAME       ENDED"


class Kubectl:
    """A command that notes what it is asked, and knows these JobSets. `crd` False: nothing is installed.

    `beside`: what there is of manifests/policy.
    """

    def __init__(self, folder: Path, *, sets: list[str], crd: bool = True, beside: str = "") -> None:
        self._notes = folder / "asked"
        self._notes.touch()
        answers = f"""
            "get crd"*) printf '%s' '{"customresourcedefinition/jobsets" if crd else ""}' ;;
            "delete -f"*) printf '%s' '{"namespace/jobset-system deleted" if crd else ""}' ;;
            "get -k "*/manifests/policy" "*) printf '{beside}' ;;
            "get jobsets"*) printf '%s\\n' {" ".join(f"'{line}'" for line in [HEADINGS, *sets])} ;;
        """
        self.command = folder / "kubectl"
        self.command.write_text(f'#!/bin/sh\necho "$*" >> {self._notes}\ncase "$*" in {answers} esac\n')
        self.command.chmod(0o755)

    @property
    def deleted(self) -> bool:
        return any(line.startswith("delete -f ") for line in self._notes.read_text().splitlines())


def uninstall(kubectl: Kubectl, stdin: int = subprocess.DEVNULL, **variables: str) -> subprocess.CompletedProcess[str]:
    command, env = [SCRIPT, kubectl.command], {**os.environ, **variables}
    return subprocess.run(command, stdin=stdin, env=env, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.mark.parametrize(("sets", "crd"), [([], True), ([], False)])
def test_without_jobsets_it_does_not_ask(tmp_path: Path, sets: list[str], crd: bool):
    kubectl = Kubectl(tmp_path, sets=sets, crd=crd)
    done = uninstall(kubectl)
    says = (
        "namespace/jobset-system deleted"
        if crd
        else "There was nothing to remove: JobSet is not installed in this cluster.\n"
    )
    assert (done.returncode, done.stdout, kubectl.deleted) == (0, says, True), done.stderr


def test_what_was_installed_beside_it_is_named_with_the_command_that_removes_it(tmp_path: Path):
    kubectl = Kubectl(tmp_path, sets=[], beside="crd/jobsetpolicies\\nclusterrole/jobset-policy-role")
    done = uninstall(kubectl)
    assert done.returncode == 0, done.stderr
    assert done.stdout.partition(" deleted")[2] == (
        "Still there, for it was installed by itself: crd/jobsetpolicies, clusterrole/jobset-policy-role\n"
        f"  to remove it:  {kubectl.command} delete -k manifests/policy\n"
    )


def test_where_nobody_can_answer_nothing_is_deleted(tmp_path: Path):
    kubectl = Kubectl(tmp_path, sets=SETS)
    done = uninstall(kubectl)
    assert (done.returncode, kubectl.deleted) == (1, False)
    first, headings, *rows, rest = done.stdout.splitlines()
    assert (first, headings) == ("25 JobSets would be deleted, with Jobs and pods:", HEADINGS)
    assert rows == [line.replace("<none>", "no") for line in SETS[:20]]
    assert rest == "..."
    assert done.stderr == "nothing was deleted: delete them with `make uninstall YES=1`\n"


def test_one_jobset_is_one(tmp_path: Path):
    first = uninstall(Kubectl(tmp_path, sets=SETS[:1])).stdout.splitlines()[0]
    assert first == "1 JobSet would be deleted, with Jobs and pods:"


def test_yes_answers_beforehand(tmp_path: Path):
    kubectl = Kubectl(tmp_path, sets=SETS)
    assert uninstall(kubectl, YES="1").returncode == 0
    assert kubectl.deleted


@pytest.mark.parametrize(("answer", "deleted"), [("y", True), ("n", False), ("", False)])
def test_a_person_is_asked(tmp_path: Path, answer: str, deleted: bool):
    kubectl = Kubectl(tmp_path, sets=SETS)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = uninstall(kubectl, theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode == 0, kubectl.deleted) == (deleted, deleted), done.stderr


def test_a_cluster_that_does_not_answer_is_an_error(tmp_path: Path):
    kubectl = Kubectl(tmp_path, sets=[])
    kubectl.command.write_text("#!/bin/sh\necho no route >&2\nexit 1\n")
    done = uninstall(kubectl)
    assert done.returncode != 0
    assert "no route" in done.stderr
