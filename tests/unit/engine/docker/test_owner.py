"""The owner of a container, and whether that process has ended: labels of this machine and of others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker.errors
import pytest
import requests

from patchstack.engine.docker import containers, owner
from patchstack.engine.docker.owner import OWNER_LABEL, is_dead, own_label
from patchstack.files import processes
from patchstack.process import Finished
from tests.support.namespaces import in_another, need_namespaces

HOST = os.uname().nodename
HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def dead() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_this_process_is_not_dead() -> None:
    assert not is_dead(own_label())
    assert not is_dead(own_label(), silent=1000 * DAY)


def test_a_process_in_another_container_with_this_host_name_is_not_dead(tmp_path: Path) -> None:
    need_namespaces()
    script = (
        "from patchstack.engine.docker.owner import own_label; open(sys.argv[1], 'w').write(own_label()); ready()\n"
    )
    with in_another(script, tmp_path / "label"):
        label = (tmp_path / "label").read_text()
        assert label.startswith(HOST)
        assert not is_dead(label)
        assert not is_dead(label, silent=DAY)
    assert is_dead(label, silent=3 * DAY)


def test_a_process_that_ended_here_is_dead(dead: int) -> None:
    assert is_dead(f"{HOST}/{processes.here()}:{dead}:1")


def test_a_number_used_again_is_told_by_its_start() -> None:
    first, _, _ = own_label().rpartition(":")
    assert is_dead(f"{first}:1")
    assert not is_dead(f"{first}:"), "no start was told"


def test_a_living_process_of_another_user_is_not_dead_where_proc_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stat, parent = processes.stat, os.getppid()
    monkeypatch.setattr(processes, "stat", lambda pid: None if pid == parent else stat(pid))
    assert not is_dead(f"{HOST}/{processes.here()}:{parent}:1")


@pytest.mark.parametrize(("silent", "gone"), [(60, False), (HOUR - 1, False), (HOUR + 1, True)])
def test_a_label_of_an_earlier_version_is_dead_after_an_hour(dead: int, silent: float, gone: bool) -> None:
    assert is_dead(f"{HOST}:{dead}:1", silent=silent) == gone


@pytest.mark.parametrize(
    "label", ["nonsense", "", f"{HOST}:x:1", f"{HOST}:1", f"{HOST}/0123:1:1", "elsewhere:{dead}:1"]
)
def test_labels_of_other_machines_and_nonsense_are_nobodys(dead: int, label: str) -> None:
    assert not is_dead(label.format(dead=dead), silent=1000 * DAY)


def test_without_proc_the_start_is_what_ps_prints_in_every_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def ps(arguments: list[str], **how: Any) -> Finished:
        asked.update(how, pid=arguments[-1])
        return Finished(args=tuple(arguments), code=0, stdout=b"Sat Nov 22 10:00:00 2025\n", stderr=b"")

    monkeypatch.setattr(processes, "stat", lambda pid: None)
    monkeypatch.setattr(owner, "run", ps)
    assert own_label().endswith(f":{os.getpid()}:Sat-Nov-22-10:00:00-2025")
    assert asked["pid"] == str(os.getpid())
    assert asked["env"]["TZ"] == "UTC"
    assert not is_dead(own_label())


def test_without_proc_and_ps_a_label_has_no_start_and_its_process_is_not_dead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "stat", lambda pid: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_label().endswith(f":{os.getpid()}:")
    assert not is_dead(own_label())
    assert not is_dead(f"{own_label()}Sat-Nov-22-10:00:00-2025"), "nothing here shows that it is a different one"


@pytest.mark.parametrize(
    ("state", "age", "place", "gone"),
    [
        ("created", 0, processes.here, True),
        ("created", 3 * DAY, lambda: "0123abcd", True),
        ("created", DAY, lambda: "0123abcd", False),
        ("exited", 3 * DAY, lambda: "0123abcd", True),
        ("running", 3 * DAY, lambda: "0123abcd", False),
        ("paused", 3 * DAY, lambda: "0123abcd", False),
    ],
    ids=["of the dead here", "elsewhere, old", "elsewhere, young", "elsewhere, ended", "elsewhere, at work", "paused"],
)
def test_containers_of_the_dead_are_swept(
    dead: int, state: str, age: float, place: Callable[[], str], gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000 + age)
    removed: list[str] = []

    class Api:
        def containers(self, **asked: Any) -> list[dict[str, Any]]:
            labels = {OWNER_LABEL: f"{HOST}/{place()}:{dead}:1"}
            return [{"Id": "c", "Labels": labels, "State": state, "Created": 1_000_000}]

        def remove_container(self, name: str, **how: Any) -> None:
            removed.append(name)
            raise docker.errors.NotFound("gone meanwhile")

    containers.sweep(Api())
    assert removed == (["c"] if gone else [])


def refused(status: int) -> requests.Response:
    response = requests.Response()
    response.status_code, response.reason, response.url = status, "no", "http+docker://c"
    return response


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (409, "removal of container c is already in progress"),
        (500, "Could not kill running container c, cannot remove - Container c is not running"),
        (500, "container state improper"),
    ],
)
def test_a_container_that_ends_while_it_is_removed_is_removed_at_the_next_try(status: int, said: str) -> None:
    answers = [docker.errors.APIError("no", refused(status), said), None]

    class Api:
        def remove_container(self, name: str, **how: Any) -> None:
            if (error := answers.pop(0)) is not None:
                raise error

    containers.remove(Api(), "c")
    assert not answers


def test_any_other_refusal_to_remove_a_container_is_raised() -> None:
    class Api:
        def remove_container(self, name: str, **how: Any) -> None:
            raise docker.errors.APIError("no", refused(500), "the disk is full")

    with pytest.raises(docker.errors.APIError, match="the disk is full"):
        containers.remove(Api(), "c")
