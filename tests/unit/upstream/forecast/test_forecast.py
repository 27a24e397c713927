"""The forecast of breaking patches: changes by week, their functions, and the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from patchstack.report.heatmap import shade
from patchstack.upstream.canary.functions import function_at, functions, heads_at
from tests.conftest import Patchstack, RunCli
from tests.support.builders import Changes, Fork
from tests.support.moving import asked, look, moved

SOURCE = "int hot(int x) {{\n    int a = 1;\n    int b = {hot};\n    int c = 3;\n    return a + b + c + x;\n}}\n\n"
CALM = "int calm(int x) {{\n" + "".join(f"    x += {n};\n" for n in range(60)) + "    return {calm};\n}}\n"


def source(hot: str = "2", calm: str = "x") -> Changes:
    return {"src/a.cpp": SOURCE.format(hot=hot) + CALM.format(calm=calm)}


def churning(directory: Path) -> Fork:
    """Return two patches: one in a function that upstream changes in every commit, one in a function that stays
    unchanged."""
    return moved(
        directory,
        (("In the hot one", source(hot="x")), ("In the calm one", source(hot="x", calm="x + 1"))),
        *((f"Tune it {number}", source(hot=str(number + 10))) for number in range(4)),
        files=source(),
    )


def test_the_patch_in_the_function_that_changes_is_the_likelier_to_break(tmp_path: Path, run_cli: RunCli) -> None:
    found = look(churning(tmp_path), run_cli, "--forecast", "--to", "main")["forecast"]
    first, second = found["patches"]
    assert (first["number"], second["number"]) == (1, 2)
    assert first["risk"] > 0.9 and second["risk"] == 0.049, "where it was calm, one in twenty"
    assert first["where"] == "src/a.cpp: hot()"
    (file,) = found["files"]
    assert (file["path"], file["commits"], sum(file["weeks"]), file["known"]) == ("src/a.cpp", 4, 4, True)
    assert {one["name"]: one["commits"] for one in file["functions"]} == {"hot": 4, "calm": 0}
    assert len(found["weeks"]) == len(file["weeks"])


def test_the_heat_map_is_shown_and_says_what_its_shades_mean(tmp_path: Path, run_cli: RunCli) -> None:
    told = asked(churning(tmp_path), run_cli, "--forecast").stdout
    assert "src/a.cpp  |██|    4 commits  2 patches  hot() 4" in told
    assert "commits a week: " in told and "█ 4" in told
    assert "0001  In the hot one  (src/a.cpp: hot())" in told


def test_the_heat_map_is_written_as_svg(tmp_path: Path, patchstack: Patchstack) -> None:
    fork = churning(tmp_path)
    assert patchstack("canary", *fork.sources, "--to", "main", "--forecast", "--svg", tmp_path / "heat.svg") == 1
    root = ElementTree.parse(tmp_path / "heat.svg").getroot()  # noqa: S314  (our own)
    titles = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("src/a.cpp: 4 commits in the week of 2025-") for title in titles)


def test_files_nobody_changes_make_no_forecast(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, (("New file only", {"src/mine.cpp": "x\n"}),), ("Other", {"docs/notes.txt": "y\n"}))
    found = look(fork, run_cli, "--forecast")["forecast"]
    assert found["files"] == []
    assert "no patch is likely to break soon" in asked(fork, run_cli, "--forecast").stdout


def test_functions_are_found_as_git_s_hunk_headers_find_them() -> None:
    text = (
        "#include <x>\n"
        "static __global__ void kernel(\n"
        "        int a) {\n"
        "    if (a) {\n"
        "    }\n"
        "}\n"
        "int declared(int);\n"
        "label:\n"
        "struct thing {\n"
        "    int x;\n"
        "};\n"
        "void llama_context::sched_reserve() {\n"
        "}\n"
    )
    lines = text.encode().split(b"\n")
    found = functions(lines)
    assert [(one.name, one.start, one.end) for one in found] == [
        ("kernel", 1, 6),
        ("thing", 8, 11),
        ("llama_context::sched_reserve", 11, 13),
    ]
    assert function_at(found, 3) == found[0]
    assert function_at(found, 6) is None and function_at(found, 0) is None
    there = [function_at(found, line) for line in range(len(lines))]
    heads = [{one.head} if one is not None else set() for one in there]
    for line in range(len(lines)):
        assert heads_at(lines, [line]) == heads[line], line
        for other in range(line, len(lines)):
            assert heads_at(lines, [line, other]) == heads[line] | heads[other], (line, other)


def test_shades_begin_at_one_commit_and_end_at_the_most() -> None:
    assert [shade(count, 8) for count in (0, 1, 2, 4, 6, 8)] == [0, 1, 1, 2, 3, 4]
