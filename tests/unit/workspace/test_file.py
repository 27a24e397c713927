"""`patchstack.yaml`: every complaint at once, each with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.workspace import read_workspace
from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork

PIN = "0ed235ea2c17a19fc8238668653946721ed136fd"
GOOD = f"series:\n  paged:\n    patches: patches/paged\n    upstream: ../llama.cpp\n    pin: {PIN}\n"


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "patchstack.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def complaints(tmp_path: Path, run_cli: RunCli, text: str | bytes) -> list[str]:
    """Return the complaints about a workspace, as the command line prints them, without its path."""
    path = written(tmp_path, text)
    ran = run_cli("verify")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {path.name} cannot be used\n")
    told = [line for line in ran.stderr.splitlines() if line.startswith("  - ")]
    assert all("patchstack.yaml:" in line for line in told)
    return [line.partition("patchstack.yaml:")[2] for line in told]


def test_a_file_that_would_take_the_parser_minutes_is_refused_at_once(tmp_path: Path, run_cli: RunCli) -> None:
    written(tmp_path, GOOD + "".join(f"k{number}: {{a: 1}}\n" for number in range(100_000)))
    ran = run_cli("verify")
    assert ran.code == 2
    assert "patchstack.yaml cannot be read: too large: " in ran.stderr
    assert "bytes, the limit is 1048576" in ran.stderr


def test_a_toolkit_is_an_absolute_path(tmp_path: Path, run_cli: RunCli) -> None:
    """A relative one would be a directory of the work tree, which others may have written."""
    text = GOOD + "variants:\n  mine: {extends: cuda, toolkit: cuda}\n"
    (told,) = complaints(tmp_path, run_cli, text)
    assert told == "7: variants.mine.toolkit: 'cuda' is not an absolute path on the engine's machine"


def test_a_good_workspace_is_read_with_paths_from_its_own_directory(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + "    fork: git@github.com:me/llama.cpp\n    fork_ref: paged\n")
    [series] = read_workspace(path).series
    assert (series.name, series.patches, series.pin) == ("paged", tmp_path / "patches/paged", PIN)
    assert Path(series.upstream).resolve() == tmp_path.parent / "llama.cpp"
    assert (series.fork, series.fork_ref, series.expect) == ("git@github.com:me/llama.cpp", "paged", "fork")


def test_what_moves_the_pin_is_read_as_commands_and_a_suite(tmp_path: Path) -> None:
    [series] = read_workspace(written(tmp_path, GOOD + "    sync: {require: [make test], suite: quick}\n")).series
    assert (series.sync_require, series.sync_suite) == ((("make", "test"),), "quick")
    [series] = read_workspace(written(tmp_path, GOOD)).series
    assert (series.sync_require, series.sync_suite) == ((), None)


@pytest.mark.parametrize(
    ("written_as", "told"),
    [("", "is empty"), ("''", "is empty"), ("3", "3 is not a string"), ("[quick]", "a list is not a string")],
)
def test_a_suite_that_is_none_is_a_complaint_and_not_no_suite(
    tmp_path: Path, run_cli: RunCli, written_as: str, told: str
) -> None:
    [complaint] = complaints(tmp_path, run_cli, GOOD + f"    sync: {{suite: {written_as}}}\n")
    assert complaint.startswith("6: series.paged.sync.suite: ") and told in complaint


def test_without_a_fork_the_lock_is_expected(tmp_path: Path) -> None:
    assert read_workspace(written(tmp_path, GOOD)).series[0].expect == "lock"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("    pin:", "    pni:"),
            ["3: series.paged: pin is missing", "5: series.paged.pni: unknown key, perhaps you meant pin"],
        ),
        (("    pin:", "    colour: red\n    pin:"), ["5: series.paged.colour: unknown key (known: "]),
        (("series:", "seres:"), ["1: series is missing", "1: seres: unknown key, perhaps you meant series"]),
        (("    patches: patches/paged\n", ""), ["3: series.paged: patches is missing"]),
        (("    upstream: ../llama.cpp\n", "    upstream:\n"), ["4: series.paged.upstream: upstream is empty"]),
        (
            (PIN, PIN[:12]),
            ["5: series.paged.pin: the pin must be a full commit id: 40 lower-case hexadecimal digits"],
        ),
        (
            (PIN, PIN.upper()),
            ["5: series.paged.pin: the pin must be a full commit id: 40 lower-case hexadecimal digits"],
        ),
        (
            (PIN, "1234567890" * 4),
            ["5: series.paged.pin: 1234567890123456789012345678901234567890 is not a string; put it in quotes"],
        ),
        ((PIN, "[a, b]"), ["5: series.paged.pin: a list is not a string"]),
        (("../llama.cpp", "true"), ["4: series.paged.upstream: True is not a string; put it in quotes"]),
        (("  paged:\n", "  paged: 7\n  other:\n"), ["2: series.paged: not a mapping of keys to values"]),
        (
            ("  paged:", "  'a b':"),
            ["the name of a series may contain only letters, digits, dots, dashes and underscores"],
        ),
        (
            ("    pin:", "    fork: ../fork\n    pin:"),
            ["5: series.paged.fork: set both fork and fork_ref, or neither"],
        ),
        (
            ("    pin:", "    fork_ref: main\n    pin:"),
            ["5: series.paged.fork_ref: set both fork and fork_ref, or neither"],
        ),
        (("    pin:", "    expect: frok\n    pin:"), ["5: series.paged.expect: 'frok' is neither fork nor lock"]),
        (("    pin:", "    expect: fork\n    pin:"), ["5: series.paged.expect: fork is not set"]),
    ],
    ids=lambda value: value[1].strip() if isinstance(value, tuple) else "",
)
def test_each_fault_is_told_with_its_line(
    tmp_path: Path, run_cli: RunCli, change: tuple[str, str], expected: list[str]
) -> None:
    assert change[0] in GOOD
    told = complaints(tmp_path, run_cli, GOOD.replace(*change, 1))
    assert len(told) == len(expected), told
    for complaint, words in zip(told, expected, strict=True):
        assert words in complaint


def test_all_faults_are_told_at_once(tmp_path: Path, run_cli: RunCli) -> None:
    text = (
        "serie: 1\n"
        "series:\n"
        "  one:\n    patches: p\n    upstrem: u\n    pin: abc\n"
        "  two:\n    patches: [p]\n    upstream: u\n    expect: maybe\n"
    )
    told = complaints(tmp_path, run_cli, text)
    assert sorted(told) == sorted(
        [
            "6: series.one.pin: the pin must be a full commit id: 40 lower-case hexadecimal digits",
            "4: series.one: upstream is missing",
            "5: series.one.upstrem: unknown key, perhaps you meant upstream",
            "8: series.two: pin is missing",
            "10: series.two.expect: 'maybe' is neither fork nor lock",
            "8: series.two.patches: a list is not a string",
            "1: serie: unknown key, perhaps you meant series",
        ]
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1: the workspace is not a mapping"),
        ("# only a comment\n", ":1: the workspace is not a mapping"),
        ("- a\n- b\n", ":1: the workspace is not a mapping"),
        ("just words\n", ":1: the workspace is not a mapping"),
        ("series:\n  a: [b\n", ":3: not YAML: "),
        ("series:\n\tpaged: x\n", ":2: not YAML: "),
        ("a: 1\n---\nb: 2\n", "not YAML: "),
        ("<<<<<<< HEAD\nseries:\n=======\nserie:\n", "not YAML: "),
        (b"\xff\xfe\x00s", "cannot be read: "),
        ("series: &a\n  x: *b\n", ":2: not YAML: "),
    ],
)
def test_what_is_no_workspace_is_told_so(tmp_path: Path, run_cli: RunCli, text: str | bytes, words: str) -> None:
    written(tmp_path, text)
    ran = run_cli("verify")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")
    assert "patchstack.yaml" in ran.stderr.splitlines()[0]
    assert words in ran.stderr.splitlines()[0]


def test_an_empty_workspace_says_how_one_begins(tmp_path: Path, run_cli: RunCli) -> None:
    written(tmp_path, "")
    assert run_cli("verify").stderr.endswith("\n\nhint: a workspace file starts with `series:`\n")


@pytest.mark.parametrize(("text", "words"), [("series:\n", "series is empty"), ("series: {}\n", "is empty")])
def test_a_workspace_without_series_is_told_so(tmp_path: Path, run_cli: RunCli, text: str, words: str) -> None:
    [told] = complaints(tmp_path, run_cli, text)
    assert told.startswith("1: series")
    assert words in told


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [(GOOD + GOOD.partition("\n")[2], 6, "paged"), (GOOD + "    pin: x\n", 6, "pin"), (GOOD + GOOD, 6, "series")],
)
def test_a_key_given_twice_is_named_with_its_line(
    tmp_path: Path, run_cli: RunCli, text: str, line: int, key: str
) -> None:
    written(tmp_path, text)
    ran = run_cli("verify")
    assert (ran.code, ran.stdout) == (2, "")
    assert f"patchstack.yaml:{line}: " in ran.stderr.splitlines()[0]
    assert f'duplicate key "{key}"' in ran.stderr
    assert "allow_duplicate_keys" not in ran.stderr


def test_comments_and_anchors_are_no_fault(tmp_path: Path) -> None:
    text = f"# ours\nseries:\n  a: &a {{patches: p, upstream: u, pin: {PIN}}} # yes\n  b: *a\n"
    assert [series.name for series in read_workspace(written(tmp_path, text)).series] == ["a", "b"]


def test_a_workspace_is_found_from_below_and_its_paths_stay_its_own(
    tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = a_fork(tmp_path, 2)
    written(tmp_path, workspace_of(fork))
    below = tmp_path / "deep/below"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    ran = run_cli("verify", "--json")
    assert (ran.code, ran.document["series"], ran.document["holds"]) == (0, "kernel", True)


def workspace_of(fork: Fork, name: str = "kernel", patches: str = "patches") -> str:
    return (
        f"series:\n  {name}:\n    patches: {patches}\n    upstream: upstream\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n"
    )


def test_without_a_workspace_the_ways_out_are_named(run_cli: RunCli) -> None:
    ran = run_cli("verify")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == (
        "error: there is no patchstack.yaml here or above\n\n"
        "hint: create it: patchstack init --fork REPO --fork-ref BRANCH; "
        "or describe a series: --patches DIR --upstream REPO --pin SHA; or try patchstack demo\n"
    )


def test_a_workspace_that_is_named_and_not_there_is_told(tmp_path: Path, run_cli: RunCli) -> None:
    ran = run_cli("verify", "--workspace", tmp_path / "other.yaml")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {tmp_path / 'other.yaml'} cannot be read: ")
    assert "No such file or directory" in ran.stderr


class Several:
    """A workspace of two series of one fork: the second lacks a commit."""

    def __init__(self, tmp_path: Path) -> None:
        self.fork = a_fork(tmp_path, 3)
        short = tmp_path / "short"
        short.mkdir()
        for number in (1, 2):
            (short / self.fork.patch(number).name).write_bytes(self.fork.patch(number).read_bytes())
        self.path = written(
            tmp_path, workspace_of(self.fork) + workspace_of(self.fork, "short", "short").partition("\n")[2]
        )


@pytest.fixture
def several(tmp_path: Path) -> Several:
    return Several(tmp_path)


def test_all_series_are_verified_a_json_line_each_and_the_worst_code_wins(several: Several, run_cli: RunCli) -> None:
    ran = run_cli("verify", "--json")
    assert ran.code == 1
    held = {document["series"]: document["holds"] for document in ran.documents}
    assert list(held.items()) == [("kernel", True), ("short", False)]
    assert ran.stderr == ""


def test_one_series_is_verified_by_its_name(several: Several, run_cli: RunCli) -> None:
    assert run_cli("verify", "kernel").code == 0
    ran = run_cli("verify", "short", "--json")
    assert (ran.code, ran.document["series"]) == (1, "short")
    both = run_cli("verify", "short", "kernel", "--json")
    assert [document["series"] for document in both.documents] == ["short", "kernel"]


def test_an_unknown_series_gets_a_suggestion_or_the_list(several: Several, run_cli: RunCli) -> None:
    ran = run_cli("verify", "kernle")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == "error: there is no series kernle\n\nhint: perhaps you meant kernel\n"
    ran = run_cli("verify", "xyz", "kernel")
    assert ran.code == 2
    assert ran.stderr.startswith("error: there is no series xyz\n\nhint: ")
    assert ran.stderr.endswith("series in patchstack.yaml: kernel, short\n")


def test_one_series_that_cannot_be_judged_does_not_hide_the_others(several: Several, run_cli: RunCli) -> None:
    text = several.path.read_text().replace("patches: patches", "patches: gone")
    several.path.write_text(text)
    ran = run_cli("verify", "--json")
    assert ran.code == 2
    failed, judged = ran.documents
    assert (failed["series"], failed["holds"], failed["error"]["exit"]) == ("kernel", None, 2)
    assert "there are no patches in gone" in failed["error"]["message"]
    assert judged["series"] == "short"
    assert ran.stderr.startswith("error[PS0401]: kernel: ")
    assert "there are no patches in gone" in ran.stderr


def test_a_tree_to_expect_is_for_one_series(several: Several, run_cli: RunCli) -> None:
    ran = run_cli("verify", "--expect-tree", several.fork.trees[-1])
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == "error: --expect-tree is for one series\n\nhint: name the series to which the tree belongs\n"
    assert run_cli("verify", "kernel", "--expect-tree", several.fork.trees[-1]).code == 0
