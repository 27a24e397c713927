"""Each log is read once, from beginning to end, and other files are refused."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from patchstack.errors import MissingError, UsageError
from patchstack.llama.traces.reader import Reader
from patchstack.trace import traced as module
from patchstack.trace.traced import Source, files_of, read_logs
from tests.support.trace_logs import GTRACE, MMQ

NO_STDIN = io.BytesIO()


def test_several_logs_are_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"{MMQ}\n")
    (tmp_path / "b.log").write_text(f"{MMQ}\n")
    reading, sources = read_logs([str(tmp_path / "a.log"), "-"], io.BytesIO(f"{MMQ}\n{MMQ}\n".encode()))
    trace = reading.trace("LLAMA_MOE_MMQ_SHAPE")
    assert trace is not None and trace.records == 3
    assert [one.name for one in sources] == [str(tmp_path / "a.log"), "-"]


def test_a_directory_stands_for_the_files_below_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x").write_text("hidden")
    (tmp_path / "sub" / "b.txt").write_text(f"{GTRACE}\n")
    (tmp_path / "a.log").write_text(f"{GTRACE}\n")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link.log").symlink_to(tmp_path / "a.log")
    assert files_of([str(tmp_path)]) == [str(tmp_path / "a.log"), str(tmp_path / "sub" / "b.txt")]


def test_a_directory_without_files_is_missing_something(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingError, match="contains no files"):
        files_of([str(tmp_path)])


def test_a_log_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "b.log").symlink_to(tmp_path / "a.log")
    with pytest.raises(UsageError, match=r"b\.log is given twice"):
        files_of([str(tmp_path / "a.log"), str(tmp_path / "b.log")])
    with pytest.raises(UsageError, match="- is given twice"):
        files_of(["-", "-"])


def test_a_log_that_does_not_exist_and_a_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="does not exist"):
        read_logs([str(tmp_path / "none.log")], NO_STDIN)
    with pytest.raises(UsageError, match="/dev/zero is not a regular file"):
        read_logs(["/dev/zero"], NO_STDIN)


def test_a_log_that_grows_is_read_to_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "growing.log"
    path.write_bytes(f"{MMQ}\n".encode() * 100)
    size = path.stat().st_size
    monkeypatch.setattr(module, "BLOCK", 1000)
    feed = Reader.feed

    def feed_and_grow(self: Reader, block: bytes) -> None:
        with path.open("ab") as out:
            out.write(f"{MMQ}\n".encode() * 20)
        feed(self, block)

    monkeypatch.setattr(Reader, "feed", feed_and_grow)
    reading, (source,) = read_logs([str(path)], NO_STDIN)
    trace = reading.trace("LLAMA_MOE_MMQ_SHAPE")
    assert trace is not None and trace.records == 100
    assert source.size == size
    assert source.changed == f"the log grew while it was read: {path.stat().st_size - size:,} new bytes are not counted"


def test_a_log_that_shrinks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shrinking.log"
    path.write_bytes(f"{MMQ}\n".encode() * 100)
    monkeypatch.setattr(module, "BLOCK", 1000)
    feed = Reader.feed

    def feed_and_shrink(self: Reader, block: bytes) -> None:
        os.truncate(path, 2000)
        feed(self, block)

    monkeypatch.setattr(Reader, "feed", feed_and_shrink)
    _, (source,) = read_logs([str(path)], NO_STDIN)
    assert source.changed.startswith("the log shrank while it was read: ")


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(f"{GTRACE}\n",))
    writer.start()
    reading, sources = read_logs([str(path)], NO_STDIN)
    writer.join()
    assert reading.trace("GTRACE") is not None
    assert sources == (Source(name=str(path), size=len(GTRACE) + 1),)


def test_an_endless_log_takes_bounded_memory_until_it_is_stopped() -> None:
    """`yes | patchstack trace read -`, with a limit on memory that reading it whole would break."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000));"
        "import signal; signal.alarm(6);"
        "from patchstack.trace.traced import read_logs; read_logs(['-'], sys.stdin.buffer)"
    )
    shell = f"""yes "{"y" * 200} trace_" | {sys.executable} -c "{code}" """
    done = subprocess.run(["bash", "-c", f"{shell}; exit ${{PIPESTATUS[1]}}"], capture_output=True, check=False)
    assert done.returncode == 128 + 14, done.stderr[-300:]  # by the alarm, not for memory


@pytest.mark.parametrize(("magic", "program"), [(b"\x1f\x8b\x08", "zcat"), (b"\x28\xb5\x2f\xfd", "zstdcat")])
def test_a_compressed_log_is_not_taken_for_an_empty_one(magic: bytes, program: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(magic + b"\x00" * 50)
    with pytest.raises(UsageError, match="is compressed") as caught:
        read_logs([str(tmp_path)], NO_STDIN)
    assert caught.value.hint == f"run '{program} {path} | patchstack trace read -'"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0)
    with pytest.raises(MissingError, match="shut cannot be read"):
        files_of([str(tmp_path)])
