"""A directory's files replaced as one step: the old set or the new one, whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.errors import MissingError
from patchstack.files import journal


@pytest.mark.parametrize("call", ["mkdir", "link", "open", "fsync", "renameat2", "rmtree"])
def test_stopped_at_any_step_the_old_set_or_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    directory = tmp_path / "patches"
    directory.mkdir()
    old = {"0001-a.patch": b"old", "0002-b.patch": b"old", "README": b"mine"}
    for name, data in old.items():
        (directory / name).write_bytes(data)
    new = {"0001-a.patch": b"new", "0002-b.patch": None, "0003-c.patch": b"new"}

    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in directory.iterdir()}

    finished = {"0001-a.patch": b"new", "0003-c.patch": b"new", "README": b"mine"}

    def dies(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    target = {
        "mkdir": "shutil.copytree",
        "link": "os.link",
        "open": "pathlib.Path.open",
        "fsync": "os.fsync",
        "renameat2": "patchstack.files.journal._exchange",
        "rmtree": "shutil.rmtree",
    }[call]
    with monkeypatch.context() as context:
        context.setattr(target, dies)
        with pytest.raises(KeyboardInterrupt):
            journal.replace_files(directory, new)
    assert state() in (old, finished)
    journal.replace_files(directory, new)
    assert state() == finished
    assert sorted(path.name for path in tmp_path.iterdir()) == ["patches"]


def test_a_full_disk_leaves_the_old_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "patches"
    directory.mkdir()
    (directory / "0001-a.patch").write_bytes(b"old")

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "write_new", full)
    with pytest.raises(MissingError, match="nothing was changed"):
        journal.replace_files(directory, {"0001-a.patch": b"new"})
    assert (directory / "0001-a.patch").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["patches"]
