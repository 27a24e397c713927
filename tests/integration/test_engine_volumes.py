"""Copying files to volumes and back, on both engines."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.archive import OWNER, Bounds, Entry, pack, unpack
from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import Engine, OutOfSpace
from patchstack.errors import MissingError, UsageError
from tests.support.builders import closed
from tests.support.engines import (
    IMAGE,
    PODMAN,
    container_engine,
    containers_of,
    names,
    needs_docker,
    ran,
    raw_api,
    shell,
    volume_of,
)

BIG = bytes(range(256)) * (20 << 12)  # 20 MiB
TREE = (
    Entry(path="src/main.cpp", data=b"int main() {}\n"),
    Entry(path="run.sh", data=b"#!/bin/sh\necho ran\n", executable=True),
    Entry(path="empty", data=b""),
    Entry(path="src/größe – 日本語.txt", data="ü\n".encode()),
    Entry(path="big.bin", data=BIG),
    Entry(path="link", link="run.sh"),
    Entry(path="hollow"),
    Entry(path="a" * 120 + "/" + "b" * 120 + "/deep", data=b"deep\n"),
)


@pytest.fixture(scope="module", params=["host", pytest.param("docker", marks=needs_docker)])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine: Engine = container_engine() if request.param == "docker" else HostEngine(tmp_path_factory.mktemp("engine"))
    yield engine
    engine.close()


def test_a_tree_comes_back_as_it_was_sent(engine: Engine, tmp_path: Path) -> None:
    with volume_of(engine) as volume:
        engine.put(volume.name, pack(TREE, mtime=1_750_000_000), image=IMAGE)
        found = {
            os.path.normpath(name): info for name, info in names(engine.get(volume.name, ".", image=IMAGE)).items()
        }
        assert found["run.sh"].mode & 0o777 == 0o755
        assert found["src/main.cpp"].mode & 0o777 == 0o644
        assert found["src/main.cpp"].mtime == 1_750_000_000
        assert found["link"].issym()
        assert {info.uid for info in found.values()} == {0 if PODMAN and isinstance(engine, ContainerEngine) else OWNER}
        unpack(engine.get(volume.name, ".", image=IMAGE), tmp_path / "back", Bounds(size=1 << 30, entries=1000))
    back = tmp_path / "back"
    for entry in TREE:
        if entry.data is not None:
            assert (back / entry.path).read_bytes() == entry.data
    assert os.readlink(back / "link") == "run.sh"
    assert (back / "hollow").is_dir()
    assert (back / "run.sh").stat().st_mode & 0o111
    files = {str(path.relative_to(back)) for path in back.rglob("*") if not path.is_dir()}
    assert files == {entry.path for entry in TREE if entry.path != "hollow"}


def test_a_job_sees_what_was_sent_and_its_files_can_be_fetched(engine: Engine) -> None:
    with volume_of(engine) as volume:
        engine.put(volume.name, pack(TREE), image=IMAGE)
        script = "cd $0; ./link; sha256sum <big.bin; cat src/gr*; mkdir -p out; echo made >out/result; touch ./new"
        outcome, told = ran(engine, shell(script.replace("$0", engine.place(volume)), volumes=(volume,)))
        assert outcome.ok, told
        assert told == f"ran\n{hashlib.sha256(BIG).hexdigest()}  -\nü\n"
        assert set(names(engine.get(volume.name, "out", image=IMAGE))) == {"out", "out/result"}
        assert set(names(engine.get(volume.name, "out/result", image=IMAGE))) == {"result"}


def test_what_is_sent_again_replaces_what_was_there(engine: Engine) -> None:
    with volume_of(engine) as volume:
        first = [
            Entry(path="a", data=b"1"),
            Entry(path="b", data=b"1"),
            Entry(path="kept", data=b"1"),
            Entry(path="l", data=b""),
        ]
        engine.put(volume.name, pack(first), image=IMAGE)
        again = [Entry(path="a", data=b"2"), Entry(path="b", link="a"), Entry(path="l", link="kept")]
        engine.put(volume.name, pack(again), image=IMAGE)
        script = f"cd {engine.place(volume)}; cat a b kept; readlink l"
        assert ran(engine, shell(script, volumes=(volume,)))[1] == "221kept\n"


def test_a_volume_is_made_when_a_job_names_it_and_can_be_written(engine: Engine) -> None:
    with volume_of(engine) as volume:
        outcome, told = ran(engine, shell(f"touch {engine.place(volume)}/x", volumes=(volume,)))
        assert outcome.ok, told
        assert volume.name in engine.volumes()
    assert volume.name not in engine.volumes()


def test_what_is_not_there_is_named(engine: Engine) -> None:
    with volume_of(engine) as volume:
        engine.put(volume.name, pack([]), image=IMAGE)
        with pytest.raises(MissingError, match=f"^bin/llama does not exist in the volume {volume.name}$"):
            engine.get(volume.name, "bin/llama", image=IMAGE)
        engine.remove("patchstack-test-never-was")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x"])
def test_a_path_out_of_a_volume_is_refused(engine: Engine, path: str) -> None:
    with pytest.raises(UsageError, match=r"is not a path below a volume"):
        engine.get("patchstack-test-x", path, image=IMAGE)


@pytest.mark.parametrize("name", ["../x", "/etc", "a/b", "", "-x", "a b", "x" * 200])
def test_a_volume_has_a_name_that_cannot_be_taken_for_a_path(engine: Engine, name: str) -> None:
    with pytest.raises(UsageError, match=r"is not a volume name"):
        engine.put(name, pack([]), image=IMAGE)
    with pytest.raises(UsageError, match=r"is not a volume name"):
        engine.remove(name)


def test_an_error_of_the_sender_stays_what_it_is(engine: Engine) -> None:
    def broken() -> Iterator[bytes]:
        yield next(pack([Entry(path="a", data=b"1")]))[:700]
        raise PermissionError("the sender's own")

    with volume_of(engine) as volume, pytest.raises(PermissionError, match=r"the sender's own"):
        engine.put(volume.name, broken(), image=IMAGE)


def test_the_host_refuses_entries_that_lead_out_of_a_volume(tmp_path: Path) -> None:
    engine = HostEngine(tmp_path / "engine")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name, link in [("../x", None), ("/x", None), ("a/../../x", None), ("l", "/etc"), ("a/l", "../../x"), ("f", "")]:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            info = tarfile.TarInfo(name)
            if link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, link
            archive.addfile(info)
        if (name, link) == ("f", ""):
            continue
        with pytest.raises(MissingError, match=r"outside the target directory"):
            engine.put("v", [stream.getvalue()])
    assert {path.name for path in tmp_path.iterdir()} == {"engine", "outside"}


def test_the_host_never_writes_through_a_link_that_a_job_left(tmp_path: Path) -> None:
    engine = HostEngine(tmp_path / "engine")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    engine.put("v", pack([Entry(path="other", data=b"")]))
    volume = tmp_path / "engine/volumes/v"
    (volume / "src").symlink_to(outside)
    (volume / "file").symlink_to(outside / "file")
    engine.put("v", pack([Entry(path="src/file", data=b"new"), Entry(path="file", data=b"new")]))
    assert (outside / "file").read_text() == "mine"
    assert (volume / "src/file").read_bytes() == (volume / "file").read_bytes() == b"new"
    assert not (volume / "src").is_symlink()
    (volume / "way").symlink_to(outside)
    with pytest.raises(MissingError, match=r"way/file does not exist"):
        engine.get("v", "way/file")


def test_the_host_removes_what_a_job_made_unwritable(tmp_path: Path) -> None:
    engine = HostEngine(tmp_path / "engine")
    engine.put("v", pack([Entry(path="a/b", data=b"1")]))
    volume = tmp_path / "engine/volumes/v"
    with closed(volume / "a/b", volume / "a", volume):
        engine.remove("v")
    assert engine.volumes() == ()


def test_what_a_job_made_unwritable_makes_way_for_a_file(tmp_path: Path) -> None:
    engine = HostEngine(tmp_path / "engine")
    engine.put("v", pack([Entry(path="a/b/c", data=b"1")]))
    volume = tmp_path / "engine/volumes/v"
    with closed(volume / "a/b/c", volume / "a/b", volume / "a"):
        engine.put("v", pack([Entry(path="a", data=b"2")]))
        assert (volume / "a").read_bytes() == b"2"


def test_a_volume_that_is_a_link_takes_no_rights_from_where_it_leads(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    for path in (outside / "below", outside):
        path.chmod(0o750)
    link = tmp_path / "engine/volumes/v"
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"):
        HostEngine(tmp_path / "engine").remove("v")
    assert [path.stat().st_mode & 0o777 for path in (outside, outside / "below")] == [0o750, 0o750]


def test_a_full_disk_under_the_host_is_named(tmp_path: Path) -> None:
    engine = HostEngine(tmp_path / "engine")
    place = tmp_path / "engine/volumes"
    place.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        with pytest.raises(OutOfSpace, match=f"^the disk that holds {place}/v is full$"):
            engine.put("v", pack([Entry(path="big", data=BIG)]))
        assert [path.name for path in (place / "v").iterdir()] == []
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(PODMAN, reason="podman makes no volume of a given size here")
@needs_docker
def test_a_full_disk_under_a_volume_is_named() -> None:
    name = "patchstack-test-full"
    engine = container_engine()
    with raw_api() as api:
        options = {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}
        api.create_volume(name, driver_opts=options, labels={"patchstack.volume": "1"})
    try:
        with pytest.raises(
            OutOfSpace, match=r"^the engine cannot write files into the volume .*: its disk is full"
        ) as full:
            engine.put(name, pack([Entry(path="big", data=BIG)]), image=IMAGE)
        assert "no space left on device" in full.value.message
    finally:
        engine.remove(name)
        engine.close()


@needs_docker
def test_a_volume_that_patchstack_did_not_make_is_not_removed() -> None:
    engine = container_engine()
    with raw_api() as api:
        api.create_volume("patchstack-test-foreign")
        try:
            with pytest.raises(
                UsageError, match=r"^cannot remove the volume \S+-foreign at .*: patchstack did not create it$"
            ):
                engine.remove("patchstack-test-foreign")
            assert "patchstack-test-foreign" not in engine.volumes()
        finally:
            api.remove_volume("patchstack-test-foreign")
            engine.close()


@pytest.mark.parametrize("read", [1, 0])
def test_who_stops_reading_leaves_nothing_behind(engine: Engine, read: int) -> None:
    """An engine that is still sending a file does not release the container it comes from."""
    with volume_of(engine) as volume:
        place = engine.place(volume)
        engine.put(volume.name, pack((Entry(path="small", data=b""),)), image=IMAGE)
        assert ran(engine, shell(f"head -c 200000000 /dev/zero >{place}/large", volumes=(volume,)))[0].ok
        began = time.monotonic()
        stream = engine.get(volume.name, "large", image=IMAGE)
        for _ in range(read):
            assert next(stream)
        del stream
        assert time.monotonic() - began < 30
        if isinstance(engine, ContainerEngine):
            assert containers_of(os.getpid()) == []
