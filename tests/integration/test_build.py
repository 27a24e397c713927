"""`patchstack build`, end to end, on this host and in containers: what it builds, finds, proves and prints."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Places
from tests.support import compiler_cache
from tests.support.builders import executable
from tests.support.toy import (
    CMAKE,
    MAIN,
    Toy,
    a_toy,
    need_ccache,
    need_docker,
    need_host_tools,
    path_without,
    wait_for,
)

MAIN_ALONE = "int main(void) { return 0; }\n"
PROOFS = ["exists", "machine", "runs", "commit", "cuda-arch", "paths"]


@pytest.fixture(params=["host", "docker"])
def toy(request: pytest.FixtureRequest, tmp_path: Path) -> Toy:
    need_docker() if request.param == "docker" else need_host_tools()
    return a_toy(tmp_path, request.param)


def test_a_series_is_built_and_proven_and_the_second_time_found(toy: Toy) -> None:
    first = toy.build("--json", check=True).document
    assert first["schema"] == "patchstack.build/1"
    assert (first["status"], first["hit"], first["variant"]) == ("built", False, "cpu")
    assert [proof["id"] for proof in first["proofs"]] == PROOFS
    assert {proof["verdict"] for proof in first["proofs"]} == {"PASS"}
    assert [one["name"] for one in first["binaries"]] == ["toy"]
    assert first["source"]["tree"] == toy.fork.trees[-1]
    program = Path(first["out_dir"]) / "bin" / "toy"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"version: 0 ({first['key']})\n"
    again = toy.build("--json", check=True)
    assert again.document["hit"] is True
    assert again.document["key"] == first["key"]
    assert "compiling" not in again.stderr


def test_the_screen_shows_every_option_with_where_it_came_from(toy: Toy) -> None:
    built = toy.build("--jobs", "1", "--define", "TOY_LOUD=ON", check=True)
    for line in ("variant   cpu", "toy in patchstack.yaml", "--jobs", "TOY_LOUD=ON", "--define", "key "):
        assert line in built.stderr, built.stderr
    assert ("the host engine does not isolate the build" in built.stderr) == (toy.engine == "host")
    assert "toy, 2 patches for cpu: build " in built.stdout
    assert "PASS" in built.stdout
    listed = toy.build("--list", check=True).stdout
    assert "6 PASS" in listed


def test_provenance_names_pin_patches_and_binaries(toy: Toy) -> None:
    found = toy.build("--json", check=True).document
    provenance = json.loads((Path(found["out_dir"]) / "provenance.json").read_bytes())
    predicate = provenance["predicate"]
    assert predicate["runDetails"]["metadata"]["invocationId"] == found["key"]
    assert {one["name"]: one["digest"]["sha256"] for one in provenance["subject"]} == {
        one["name"]: one["sha256"] for one in found["binaries"]
    }
    materials = {one["name"]: one for one in predicate["buildDefinition"]["resolvedDependencies"]}
    assert {"pin", "toolchain", *(f"patches/{path.name}" for path in toy.fork.patches)} <= set(materials)
    assert ("image" in materials) == (toy.engine == "docker")
    assert materials["pin"]["digest"]["gitCommit"] == toy.fork.pin


def test_a_static_assertion_on_a_bad_knob_is_a_result_that_names_the_patch(toy: Toy) -> None:
    bad = toy.build("--compile-define", "TOY_ROWS=3")
    assert bad.code == 1
    assert "toy, 2 patches does not build for cpu" in bad.stdout
    assert 'rows.h:4: static assertion failed: "TOY_ROWS must be 4 or 8"' in bad.stdout
    assert f"line written by {toy.fork.patches[0].name}" in bad.stdout
    again = toy.build("--compile-define", "TOY_ROWS=3", "--json")
    assert again.code == 1
    document = again.document
    assert (document["status"], document["hit"], document["proofs"]) == ("rejected", True, [])
    assert document["rejection"]["kind"] == "rejected"
    assert document["rejection"]["patch"] == toy.fork.patches[0].name
    assert Path(document["log"]).is_file()
    assert toy.build("--compile-define", "TOY_ROWS=8", "--json", check=True).document["status"] == "built"
    assert "rejected" in toy.build("--list").stdout


def test_an_error_in_upstreams_own_line_names_the_patches_of_that_file(toy: Toy) -> None:
    toy.commit("Rename what upstream uses", {"version.h.in": '#define TOY_ID "@TOY_COMMIT@"\n'})
    built = toy.build()
    assert built.code == 1
    assert "main.c:8: 'TOY_COMMIT' undeclared" in built.stdout
    assert f"upstream's own line; changed in this file: {toy.fork.patches[1].name}" in built.stdout


def test_at_n_builds_the_patches_up_to_n(toy: Toy) -> None:
    toy.commit("Does not compile", {"main.c": "int main(void) { return oops; }\n"})
    assert toy.build().code == 1
    good = toy.build("--at", "2", "--json", check=True).document
    assert good["source"]["tree"] == toy.fork.trees[1]
    assert len(good["source"]["patches"]) == 2
    pin = toy.build("--at", "0", "--json", check=True).document
    assert pin["source"]["tree"] == toy.fork.upstream.tree(toy.fork.pin)
    assert (pin["source"]["patches"], pin["source"]["label"]) == ([], "toy at the pin")


def test_an_optional_target_is_built_from_the_patch_on_that_adds_it(toy: Toy) -> None:
    toy.commit("A program", {"CMakeLists.txt": f"{CMAKE}add_executable(extra extra.c)\n", "extra.c": MAIN_ALONE})
    workspace = toy.root / "patchstack.yaml"
    workspace.write_text(workspace.read_text().replace("targets: [toy]", "targets: [toy], optional_targets: [extra]"))
    before = toy.build("--at", "2", "--json", check=True).document
    after = toy.build("--json", check=True).document
    assert [one["name"] for one in before["binaries"]] == ["toy"]
    assert [one["name"] for one in after["binaries"]] == ["extra", "toy"]
    assert "optional, not in this source tree: extra" in before["proofs"][0]["detail"]
    assert after["proofs"][0]["detail"].startswith("toy, extra; ")
    assert after["options"]["optional_targets"]["value"] == ["extra"]


def test_an_optional_target_that_does_not_compile_fails_the_build(toy: Toy) -> None:
    toy.commit("Does not compile", {"CMakeLists.txt": f"{CMAKE}add_executable(extra extra.c)\n", "extra.c": "oops\n"})
    workspace = toy.root / "patchstack.yaml"
    workspace.write_text(workspace.read_text().replace("targets: [toy]", "targets: [toy], optional_targets: [extra]"))
    failed = toy.build()
    assert failed.code == 1
    assert "extra.c" in failed.told


ENDLESS_ONCE = """#!/bin/sh
[ -e {marker} ] && exit 0
touch {marker}
for job in 1 2 3 4
do
    mkdir -p made$job
    (i=0; while :; do i=$((i + 1)); echo x >made$job/$i; done) &
done
wait
"""


def test_who_waits_for_a_build_that_is_killed_makes_it(tmp_path: Path) -> None:
    need_host_tools()
    (tmp_path / "toy").mkdir()
    toy = a_toy(tmp_path / "toy", "host")
    marker = tmp_path / "marker"
    command = "\nadd_custom_command(TARGET toy PRE_BUILD COMMAND ${CMAKE_SOURCE_DIR}/endless.sh)\n"
    toy.commit(
        "Never end",
        {"endless.sh": executable(ENDLESS_ONCE.format(marker=marker)), "CMakeLists.txt": CMAKE + command},
    )
    holder = toy.start()
    assert wait_for(marker.exists, 60)
    waiter = toy.start("--json")
    assert waiter.stderr is not None
    said = ""
    while "which makes the same build" not in said:
        line = waiter.stderr.readline()
        assert line, said
        said += line
    holder.kill()
    stdout, stderr = waiter.communicate(timeout=120)
    holder.communicate(timeout=30)
    assert waiter.returncode == 0, stderr
    document = json.loads(stdout)
    assert (document["hit"], document["status"]) == (False, "built")


def test_a_project_that_does_not_write_to_bin_is_told_what_to_set(toy: Toy) -> None:
    other = CMAKE.replace("set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\n", "")
    toy.commit("Programs elsewhere", {"CMakeLists.txt": other})
    built = toy.build()
    assert built.code == 2
    assert "error: the build of toy left no files in bin/ of CMake's build directory" in built.stderr
    assert "  - found elsewhere: toy\n" in built.stderr
    assert "hint: set cmake: {CMAKE_RUNTIME_OUTPUT_DIRECTORY: bin, " in built.stderr
    assert "in variant cpu" in built.stderr
    toy.build("--define", "CMAKE_RUNTIME_OUTPUT_DIRECTORY=bin", check=True)


def test_the_same_tree_has_the_same_key_wherever_it_comes_from(toy: Toy, tmp_path: Path) -> None:
    first = toy.build("--json", check=True).document
    plain = tmp_path / "plain"
    toy.fork.repo.git("worktree", "add", "-q", plain, toy.fork.commits[-1])
    other = toy.build("--source", str(plain), "--variant", "cpu", "--json", check=True).document
    assert other["key"] == first["key"]
    assert other["hit"] is True


def test_a_build_made_again_gives_the_same_bytes(toy: Toy) -> None:
    first = toy.build("--json", "--no-ccache", check=True).document
    again = toy.build("--json", "--no-ccache", "--again", check=True).document
    assert again["hit"] is False
    assert again["binaries"] == first["binaries"]
    assert again["ccache"] is None


def test_ccache_is_kept_from_one_build_to_the_next(toy: Toy) -> None:
    need_ccache(toy.engine)
    tag = os.urandom(8).hex()  # no other run of this test has compiled it
    main = MAIN.replace("return 0;", f'return "{tag}"[0] == 0;')
    toy.commit("Something new", {"main.c": main})
    first = toy.build("--json", check=True).document
    assert first["ccache"] == {"hits": 0, "misses": 1}
    again = toy.build("--json", "--again", check=True).document
    assert again["ccache"] == {"hits": 1, "misses": 0}


def test_the_cache_that_outlives_a_run_gives_the_objects_that_compiling_gives(tmp_path: Path, places: Places) -> None:
    need_host_tools()
    need_ccache()
    place = tmp_path / "kept"
    found = []
    for directory, cache in (("a", places.cache), ("longer", tmp_path / "other-cache")):
        compiler_cache.warm(cache, place)
        (tmp_path / directory).mkdir()
        toy = a_toy(tmp_path / directory, "host")
        found.append(toy.build("--json", check=True, PATCHSTACK_CACHE=str(cache)).document)
    assert [one["ccache"] for one in found] == [{"hits": 0, "misses": 1}, {"hits": 1, "misses": 0}]
    assert found[0]["binaries"] == found[1]["binaries"], "their digests"


def test_a_stored_binary_that_was_changed_is_not_trusted(toy: Toy) -> None:
    first = toy.build("--json", check=True).document
    program = Path(first["out_dir"]) / "bin" / "toy"
    with program.open("ab") as file:
        file.write(b"x")
    again = toy.build("--json", check=True)
    assert again.document["hit"] is False
    assert "was changed; it is made again" in again.stderr
    assert again.document["binaries"] == first["binaries"]


def test_a_definition_that_cmake_does_not_use_is_refused(toy: Toy) -> None:
    built = toy.build("--define", "TOY_ROWS=8")
    assert built.code == 2
    assert "error: CMake did not use TOY_ROWS" in built.stderr
    assert "hint: use --compile-define to pass a definition to the compilers instead" in built.stderr
    assert "no builds yet" in toy.build("--list").stderr


def test_the_binaries_are_copied_where_one_wants_them_also_twice(toy: Toy, tmp_path: Path) -> None:
    for _ in range(2):
        toy.build("-o", str(tmp_path / "out"), check=True)
        assert os.access(tmp_path / "out" / "toy", os.X_OK)


def test_a_build_made_with_ccache_is_not_given_to_one_that_wants_none(toy: Toy) -> None:
    need_ccache(toy.engine)
    assert toy.build("--json", check=True).document["ccache"] is not None
    without = toy.build("--json", "--no-ccache", check=True)
    assert without.document["hit"] is False
    assert "was made with ccache; it is made again without ccache" in without.stderr
    assert toy.build("--json", "--no-ccache", check=True).document["hit"] is True
    assert toy.build("--json", check=True).document["hit"] is True


def test_a_host_without_ccache_builds_without_it_and_says_so(tmp_path: Path) -> None:
    need_host_tools()
    toy = a_toy(tmp_path, "host")
    path = path_without(tmp_path / "programs", "ccache")
    built = toy.build("--json", PATH=path)
    assert built.code == 0, built.stderr
    assert built.document["ccache"] is None
    assert built.document["options"]["ccache"] == {"value": False, "from": "not installed"}
    assert "ccache    off" in built.stderr
    provenance = json.loads((Path(built.document["out_dir"]) / "provenance.json").read_text())
    assert provenance["predicate"]["buildDefinition"]["externalParameters"]["ccache"] is False
    assert toy.build("--json", "--no-ccache", PATH=path, check=True).document["hit"] is True


def test_ccache_that_is_asked_for_and_not_there_is_missing(tmp_path: Path) -> None:
    need_host_tools()
    built = a_toy(tmp_path, "host").build("--ccache", PATH=path_without(tmp_path / "programs", "ccache"))
    assert built.code == 3
    assert "error: this machine lacks ccache" in built.stderr
    assert "use --no-ccache to build without ccache" in built.stderr


def test_a_build_made_with_ccache_serves_a_host_that_lost_it(tmp_path: Path) -> None:
    need_host_tools()
    need_ccache()
    toy = a_toy(tmp_path, "host")
    first = toy.build("--json", check=True).document
    assert first["options"]["ccache"] == {"value": True, "from": "default"}
    path = path_without(tmp_path / "programs", "ccache")
    found = toy.build("--json", PATH=path, check=True).document
    assert (found["key"], found["hit"]) == (first["key"], True)
    again = toy.build("--json", "--again", PATH=path, check=True).document
    assert (again["key"], again["binaries"]) == (first["key"], first["binaries"])


def test_a_definition_that_is_no_value_is_a_rejection_where_it_is_used(toy: Toy) -> None:
    built = toy.build("--compile-define", "TOY_ROWS=four")
    assert built.code == 1
    assert "rows.h:4: " in built.stdout
    assert f"line written by {toy.fork.patches[0].name}" in built.stdout


def test_a_target_that_is_not_there_is_an_answer(toy: Toy) -> None:
    built = toy.build("--target", "nothing")
    assert built.code == 1
    assert "unknown target 'nothing'" in built.stdout


def test_a_build_that_takes_too_long_is_stopped_and_not_judged(toy: Toy) -> None:
    toy.commit("Sleep", {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nexecute_process(COMMAND sleep 60)\n"})
    built = toy.build("--time", "2s")
    assert built.code == 4
    assert "error: the build took over 2 s (--time) and was stopped" in built.stderr
    assert "the log is in " in built.stderr
    assert "no builds yet" in toy.build("--list").stderr


def test_a_proof_that_fails_fails_the_build(toy: Toy) -> None:
    toy.commit("Forget the commit", {"version.h.in": '#define TOY_COMMIT "unknown"\n'})
    built = toy.build("--json")
    assert built.code == 1
    failed = {proof["id"]: proof["verdict"] for proof in built.document["proofs"]}
    assert failed["commit"] == "FAIL"
    assert failed["exists"] == "PASS"
    assert toy.build().code == 1, "found again, and no better"


def test_gc_removes_what_was_not_used_for_long(toy: Toy) -> None:
    found = toy.build("--json", check=True).document
    assert "removed 0 of 1 build" in toy.build("--gc").stderr
    month = 31 * 86400
    record = Path(found["out_dir"]) / "build.json"
    os.utime(record, (record.stat().st_mtime - month, record.stat().st_mtime - month))
    assert "removed 1 of 1 build" in toy.build("--gc").stderr
    assert toy.build("--json", check=True).document["hit"] is False


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--arch", "122"], 2, "there is no CUDA architecture 122"),
        (["--variant", "cpuu"], 2, "perhaps you meant cpu"),
        (["--at", "9"], 2, "no patch has number 9"),
        (["--memory", "much"], 2, "--memory much is not a size"),
        (["--time", "soon"], 2, "--time soon is not a time"),
        (["--source", "."], 2, "no variant given"),
        (["--source", ".", "--at", "1"], 2, "--source cannot be combined with --at"),
        (["--platform", "linux/riscv64"], 3, "not linux/riscv64"),
        (["--define", "1x=2"], 2, "'1x' is not a valid name"),
        (["--older-than", "3"], 2, "--older-than needs --gc"),
        (["--unproven", "nonsense"], 2, "--unproven nonsense: no such proof"),
        (["nowhere"], 2, "there is no series nowhere"),
    ],
)
def test_wrong_usage_is_told_with_a_hint(tmp_path: Path, options: list[str], code: int, words: str) -> None:
    need_host_tools()
    built = a_toy(tmp_path, "host").build(*options)
    assert built.code == code, built
    assert words in built.stderr
    assert built.stderr.count("error: ") == 1


def test_an_engine_that_is_none_is_told_with_those_there_are(tmp_path: Path) -> None:
    built = a_toy(tmp_path, "dokcer").build()
    assert built.code == 2
    assert "docker" in built.stderr
    (tmp_path / "other").mkdir()
    built = a_toy(tmp_path / "other", "docker").build(DOCKER_HOST="unix:///nowhere/docker.sock")
    assert built.code == 3
    assert "/nowhere/docker.sock" in built.stderr
    assert "hint: " in built.stderr


def test_a_host_without_the_tools_says_which(tmp_path: Path) -> None:
    need_host_tools()
    only = tmp_path / "only"
    only.mkdir()
    for tool in ("git", "cc", "c++", "cmake", "ldd", "sh"):
        for directory in os.environ["PATH"].split(":"):
            if (Path(directory) / tool).exists():
                (only / tool).symlink_to(Path(directory) / tool)
                break
    built = a_toy(tmp_path, "host").build(PATH=str(only))
    assert built.code == 3
    assert "this machine lacks ninja" in built.stderr


def test_the_document_of_list_is_one_a_line(toy: Toy) -> None:
    toy.build(check=True)
    toy.build("--at", "1", check=True)
    lines = toy.build("--list", "--json", check=True).stdout.splitlines()
    assert [json.loads(line)["hit"] for line in lines] == [True, True]
