"""The sources of console blocks: each is typed, recorded or an example, and only variable parts are ignored."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.checkout import ROOT


def _screens() -> ModuleType:
    spec = importlib.util.spec_from_file_location("screens", ROOT / "ci" / "screens.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["screens"] = module
    spec.loader.exec_module(module)
    return module


SCREENS = _screens()


def complaints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, **records: str) -> list[str]:
    """Return the problems of a page, with these records."""
    monkeypatch.setattr(SCREENS, "ROOT", tmp_path)
    monkeypatch.setattr(SCREENS, "RECORDS", tmp_path / "recorded")
    (tmp_path / "recorded").mkdir()
    for name, record in records.items():
        (tmp_path / "recorded" / f"{name}.txt").write_text(record, "utf-8")
    return list(SCREENS.complaints_of(tmp_path / "page.md", text))


def test_every_console_block_of_the_docs_says_where_it_comes_from() -> None:
    found = [one for page in SCREENS.pages() for one in SCREENS.complaints_of(page, page.read_text("utf-8"))]
    assert found == []


def test_every_record_is_shown_on_a_page() -> None:
    shown = {
        match["options"]
        for page in SCREENS.pages()
        for match in SCREENS.BLOCK.finditer(page.read_text("utf-8"))
        if match["kind"] == "recorded"
    }
    assert {path.stem for path in SCREENS.RECORDS.iterdir()} == shown


@pytest.mark.parametrize("marker", ["", "<!-- ran -->\n", "<!-- run -->\n\n", "text\n"])
def test_a_block_without_a_marker_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    text = f"# Page\n\n{marker}```console\n$ patchstack verify\n```\n"
    line = text[: text.index("```")].count("\n") + 1
    expected = f"page.md:{line}: a console block that is neither run, nor recorded, nor an example"
    assert complaints(tmp_path, monkeypatch, text) == [expected]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("$ x\na\nb\nc\n", None),
        ("$ x\na\n…\nc\n", None),
        ("…\nb\n…\n", None),
        ("$ x\na\nc\n", "c"),
        ("$ x\nc\nb\n", "c"),
        ("$ x\na\nB\n", "B"),
        ("# recorded\n$ x\n", "# recorded"),
    ],
)
def test_an_extract_is_lines_of_the_record_in_order_and_gaps_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, wrong: str | None
) -> None:
    text = f"<!-- recorded: one -->\n```console\n{body}```\n"
    found = complaints(tmp_path, monkeypatch, text, one="# recorded\n$ x\na\nb\nc\n")
    assert found == ([] if wrong is None else [f"page.md:1: not in recorded/one.txt: {wrong}"])


def test_a_record_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "<!-- recorded: none -->\n```console\n$ x\n```\n"
    assert complaints(tmp_path, monkeypatch, text) == ["page.md:1: recorded/none.txt does not exist"]


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("$ patchstack verify --patches DIR --upstream REPO \\\n    --pin SHA   # --no-such-option", ""),
        ("$ A=1 patchstack build --arch 121 && echo --nope", ""),
        ("$ patchstack bench ab … --dry-run", ""),
        ("$ patchstack cost memory MODEL -- llama-server --no-such-option", ""),
        ("$ patchstack verify --patch DIR", "No such option"),
        ("$ patchstack bench ab --binn BIN", "No such option"),
        ("$ echo x | patchstack ci summary --no-such-option", "No such option"),
    ],
)
def test_options_of_examples_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, wrong: str
) -> None:
    found = complaints(tmp_path, monkeypatch, f"<!-- example -->\n```console\n{command}\n```\n")
    assert (len(found) == 1 and wrong in found[0]) if wrong else found == []


def test_options_in_blocks_of_shell_must_exist_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = complaints(tmp_path, monkeypatch, "```sh\npatchstack lint\npatchstack verify --nope  # a comment\n```\n")
    assert len(found) == 1 and found[0].startswith("page.md:1: patchstack verify --nope: No such option")


def test_an_example_shows_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = complaints(tmp_path, monkeypatch, "<!-- example -->\n```console\n$ echo 1\n1\n```\n")
    assert found == ["page.md:1: an example has no output: 1"]


def test_times_sizes_and_dates_are_not_compared_and_counts_are() -> None:
    options = SCREENS.options_of(None)
    old = "6 patches, 0.4 s, 1 min 2 s, 0.7 MB, 2026-11-22 20:53, 176 days old"
    new = "6 patches, 12.4 s, 2 min 59 s, 3 kB, 2027-01-02 01:00, 3 days old"
    assert SCREENS.masked(old, options) == SCREENS.masked(new, options)
    assert SCREENS.masked("6 patches", options) != SCREENS.masked("5 patches", options)
    assert SCREENS.masked("tree 22adb83c2871", options) != SCREENS.masked("tree 22adb83c2872", options)


def test_ids_of_the_demo_are_compared_even_if_ids_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    options = SCREENS.options_of("ids")
    monkeypatch.setattr(SCREENS, "of_the_demo", lambda given: given.startswith("22adb83c"))
    assert SCREENS.masked("build aaaaaaa1", options) == SCREENS.masked("build bbbbbbb2", options)
    assert SCREENS.masked("tree 22adb83c2871", options) != SCREENS.masked("tree aaaaaaa1", options)


def test_figures_are_left_out_only_if_asked() -> None:
    one, two = "B/A +5.2%", "B/A -1.3%"
    assert SCREENS.masked(one, SCREENS.options_of(None)) != SCREENS.masked(two, SCREENS.options_of(None))
    assert SCREENS.masked(one, SCREENS.options_of("figures")) == SCREENS.masked(two, SCREENS.options_of("figures"))


def test_options_of_a_run() -> None:
    options = SCREENS.options_of("2…3, exit 1, exit 4, ids, figures")
    assert (options.head, options.tail, options.exits) == (2, 3, {1, 4}) and options.ids and options.figures
    with pytest.raises(SCREENS.Wrong, match="no such option of a run: idz"):
        SCREENS.options_of("idz")


@pytest.fixture
def reader(tmp_path: Path) -> object:
    """Return a reader in an empty home directory."""
    (tmp_path / "home").mkdir()
    return SCREENS.Reader(home=tmp_path / "home")


def test_a_page_is_typed_from_top_to_bottom(reader: object) -> None:
    first = "<!-- run -->\n```console\n$ mkdir a && cd a\n```\n\n"
    text = f"{first}<!-- run: 1…1 -->\n```console\n$ pwd; seq 9\n> echo end\nold\n```\n"
    new = SCREENS.page_of(text, reader)
    assert new.endswith("```console\n$ pwd; seq 9\n> echo end\n/home/me/a\n…\nend\n```\n")
    assert SCREENS.page_of(new, reader) == new.replace("/home/me/a", "/home/me/a/a")


@pytest.mark.parametrize(("marker", "command"), [("run", "false"), ("run: exit 1", "true"), ("run: exit 1", "exit 3")])
def test_a_command_that_ends_otherwise_than_told_is_an_error(reader: object, marker: str, command: str) -> None:
    text = f"<!-- {marker} -->\n```console\n$ {command}\n```\n"
    with pytest.raises(SCREENS.Wrong, match="its commands end with"):
        SCREENS.page_of(text, reader)


def test_a_page_that_differs_in_times_alone_stays(reader: object) -> None:
    text = "<!-- run -->\n```console\n$ echo took 2.0 s\ntook 1.0 s\n```\n"
    assert SCREENS.page_of(text, reader) == text


def test_lines_of_progress_are_left_out(reader: object) -> None:
    lines = [
        "[3/14]  21%",
        "gate a took 31.0 s of 40.2 s",
        "b took 1 min 33 s of 2 min 25 s",
        "opening  31 s",
        "b  [2/5]  1 min 02 s, about 30 s left",
        "PASS  x",
    ]
    text = "<!-- run -->\n```console\n$ printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + "\n```\n"
    new = SCREENS.page_of(text, reader)
    assert new == text.removesuffix("```\n") + "PASS  x\n```\n"


def test_recorded_blocks_and_examples_are_not_typed(reader: object) -> None:
    text = "<!-- recorded: one -->\n```console\n$ false\nold\n```\n\n<!-- example -->\n```console\n$ false\n```\n"
    assert SCREENS.page_of(text, reader) == text


def test_a_record_is_written_with_where_it_was_made(
    tmp_path: Path, reader: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SCREENS, "RECORDS", tmp_path / "recorded")
    text = "<!-- recorded: one -->\n```console\n$ seq 2\n```\n"
    assert SCREENS.page_of(text, reader, record={"one"}) == text.replace("$ seq 2\n", "$ seq 2\n1\n2\n")
    first, rest = (tmp_path / "recorded" / "one.txt").read_text("utf-8").split("\n", 1)
    assert first.startswith("# recorded 2") and rest == "$ seq 2\n1\n2\n"


def test_a_difference_leaves_out_what_differs_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCREENS, "of_the_demo", lambda given: False)
    old = "PASS  0123456789ab  (0.8 s)\nPASS  1123456789ab\n"
    assert SCREENS.difference(old, "PASS  ab0123456789  (0.1 s)\nFAIL  1123456789ab\n")[3:] == [
        " PASS # (#)",
        "-PASS #",
        "+FAIL #",
    ]
    assert SCREENS.difference(old, old.replace("0.8 s", "0.9 s"))[3:5] == [
        "-PASS  0123456789ab  (0.8 s)",
        "+PASS  0123456789ab  (0.9 s)",
    ]
