"""Finding the message that changed."""

from __future__ import annotations

import pytest

from patchstack.cost.prefix.blame import Blame, Conversations, blame
from patchstack.cost.prefix.records import Message


def said(*texts: str) -> list[Message]:
    """Return messages in turns, the system's first."""
    roles = ["system", *(["user", "assistant"] * len(texts))]
    return [Message(role=role, text=text) for role, text in zip(roles, texts, strict=False)]


BEFORE = said("be brief", "one", "1", "two")


@pytest.mark.parametrize(
    ("now", "index", "role", "change"),
    [
        (said("be brief", "one!", "1", "two", "2", "three"), 1, "user", "was extended"),
        (said("be brief", "on", "1", "two", "2", "three"), 1, "user", "was truncated"),
        (said("be long", "one", "1", "two", "2", "three"), 0, "system", "was rewritten"),
        (said("be brief", "one", "1 ", "two", "2", "three"), 2, "assistant", "was extended"),
        (said("be  brief", "one", "1", "two"), 0, "system", "has different whitespace"),
        (said("be brief"), 1, "user", "and all after it removed"),
        ([BEFORE[0], *BEFORE[2:], Message(role="assistant", text="2")], 1, "user", "removed"),
        ([BEFORE[0], BEFORE[3]], 1, "user", "and 1 after it removed"),
        ([BEFORE[0], Message(role="user", text="zero"), *BEFORE[1:]], 1, "user", "moved: 1 inserted before it"),
    ],
)
def test_the_first_changed_message_is_named(now: list[Message], index: int, role: str, change: str) -> None:
    assert blame(BEFORE, now) == Blame(message=index, role=role, change=change)


def test_messages_that_are_only_appended_are_not_blamed() -> None:
    assert (
        blame(BEFORE, [*BEFORE, Message(role="assistant", text="2"), Message(role="user", text="three")], "2") is None
    )
    assert blame(BEFORE, BEFORE) is None


def test_an_answer_that_comes_back_otherwise_is_blamed() -> None:
    now = [*BEFORE, Message(role="assistant", text="two"), Message(role="user", text="three")]
    assert blame(BEFORE, now, "2") == Blame(message=4, role="assistant", change="is not what the server answered")


def test_an_image_that_became_text_is_named() -> None:
    before = [Message(role="user", text="look", images=("a",))]
    assert blame(before, [Message(role="user", text="[screenshot evicted]")]) == Blame(
        message=0, role="user", change="lost its image"
    )


def test_interleaved_conversations_are_told_apart() -> None:
    talks = Conversations(last=[])
    one, two = said("same system", "cats"), said("same system", "dogs")
    assert (talks.find(one), talks.step(0, one, "mew")) == (0, None)
    number = talks.find(two)
    assert number == 1
    talks.step(number, two, "wuff")
    grown = [*one, Message(role="assistant", text="mew"), Message(role="user", text="more")]
    assert talks.find(grown) == 0
    assert talks.step(0, grown, None) is None


def test_an_image_that_was_exchanged_for_another_is_named() -> None:
    before = [Message(role="user", text="look", images=("a",)), Message(role="assistant", text="yes")]
    now = [Message(role="user", text="look", images=("b",)), Message(role="assistant", text="yes")]
    assert blame(before, now) == Blame(message=0, role="user", change="has a different image")
