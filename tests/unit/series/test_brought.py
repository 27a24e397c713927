"""The switches and gates that patches add, by the trailers of their messages."""

from __future__ import annotations

import pytest

from patchstack.series.brought import brought_by_commits, gates_brought

HEAD = b"tree 0\nauthor A <a@example.com> 0 +0000\n"


def patch(body: str) -> bytes:
    return (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.com>\n"
        f"Subject: [PATCH] Paged\n\n{body}\n---\n\n"
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-New-Gate: no\n+b\n"
    ).encode()


@pytest.mark.parametrize(
    ("body", "switches", "gates"),
    [
        (
            "Text.\n\nSwitch: LLAMA_PAGED\nNew-Gate: paged\nnew-gate: other/engaged",
            ["LLAMA_PAGED"],
            "paged other/engaged",
        ),
        ("Switch: A\nSwitch: B\nSwitch: A\nNew-Gate: one, two\nNew-Gate: one", ["A", "B"], "one two"),
        ("Switch: none\nSwitch:\nNew-Gate:", [], ""),
        ("New-Gate: paged\n\nNot the last paragraph.", [], ""),
        ("Gate: ops\nGates: kl, ops\nSwitch: A", ["A"], ""),
    ],
)
def test_switches_and_gates_are_read_from_trailers_alone(body: str, switches: list[str], gates: str) -> None:
    (found,) = brought_by_commits([("c0ffee", HEAD + f"\nPaged\n\n{body}\n".encode())])
    assert (list(found.switches), " ".join(found.gates), found.subject) == (switches, gates, "Paged")
    assert found.unproven == (() if gates else tuple(switches))
    assert found.commit == "c0ffee"
    assert gates_brought([patch(body)]) == found.gates


def test_the_first_commit_that_names_a_switch_declares_it() -> None:
    messages = ("Switch: A\nNew-Gate: a", "Switch: A\nSwitch: B", "Switch: A")
    commits = [(str(at), HEAD + f"\nPaged\n\n{body}\n".encode()) for at, body in enumerate(messages)]
    assert [one.switches for one in brought_by_commits(commits)] == [("A",), ("B",), ()]


def test_a_message_in_another_encoding_is_read_as_git_reads_it() -> None:
    data = HEAD + b"encoding ISO-8859-1\n\nPag\xe9\n\nNew-Gate: pag\xe9\n"
    assert brought_by_commits([("0", data)])[0].gates == ("pag\u00e9",)
    unknown = HEAD + b"encoding no-such\n\nP\n\nNew-Gate: paged\n"
    assert brought_by_commits([("0", unknown)])[0].gates == ("paged",)


def test_the_gates_of_several_patches_are_named_once() -> None:
    patches = [patch("New-Gate: b"), patch("Switch: A"), patch("New-Gate: a\nNew-Gate: b"), b"no mail at all"]
    assert gates_brought(patches) == ("b", "a")
