"""Find the first message that changed in a prompt since the previous step.

Nothing after this message can be reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.cost.prefix.records import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """The first message that changed.

    `message` is its index in the previous step, and `change` describes the change.
    """

    message: int
    role: str
    change: str


def blame(before: Sequence[Message], now: Sequence[Message], answer: str | None = None) -> Blame | None:
    """Return the first message of `before` that is different or missing in `now`.

    Return None if messages were only appended. `answer` is the server's reply to `before`. It is treated as the last
    message of `before`, but it may be missing in `now`.
    """
    held = list(before)
    if answer is not None:
        held.append(Message(role="assistant", text=answer))
    for index, one in enumerate(held):
        if index >= len(now):
            if index == len(before):
                return None
            return Blame(message=index, role=one.role, change="and all after it removed")
        other = now[index]
        if one == other:
            continue
        if index == len(before):
            if other.role != "assistant":
                return None  # the client did not keep the answer
            return Blame(message=index, role=one.role, change="is not what the server answered")
        return Blame(message=index, role=one.role, change=_change(one, other, held[index:], now[index:]))
    return None


def _change(one: Message, other: Message, held: Sequence[Message], now: Sequence[Message]) -> str:
    if len(held) > 1 and other in held[1:]:
        count = list(held).index(other)
        return "removed" if count == 1 else f"and {count - 1} after it removed"
    if len(now) > 1 and one in now[1:]:
        return f"moved: {list(now).index(one)} inserted before it"
    fewer = len(one.images) - len(other.images)
    if fewer > 0:
        return "lost its image" if len(one.images) == 1 else f"lost {fewer} images"
    if one.role != other.role:
        return f"now has the role {other.role}"
    if fewer < 0:
        return "has an additional image"
    if one.text == other.text:
        return "has a different image"
    if other.text.startswith(one.text):
        return "was extended"
    if one.text.startswith(other.text):
        return "was truncated"
    if one.text.split() == other.text.split():
        return "has different whitespace"
    return "was rewritten"


@dataclass(slots=True)
class Conversations:
    """The separate conversations of a log.

    A step belongs to the conversation whose last step has the most messages in common with it.
    """

    last: list[tuple[Sequence[Message], str | None]]

    def find(self, now: Sequence[Message]) -> int:
        """Return the index of the conversation that these messages continue.

        If no conversation fits, begin a new one.
        """
        best, chosen = 0, -1
        for number, (before, answer) in enumerate(self.last):
            whole = before if answer is None else (*before, Message(role="assistant", text=answer))
            shared = _shared(whole, now)
            if shared and shared >= best:
                best, chosen = shared, number
        if chosen < 0:
            self.last.append(((), None))
            chosen = len(self.last) - 1
        return chosen

    def step(self, number: int, now: Sequence[Message], answer: str | None) -> Blame | None:
        """Record a step of the conversation `number`.

        Return the first message that changed since the previous step of this conversation. Return None if none changed,
        or if this is the first step.
        """
        before, answered = self.last[number]
        self.last[number] = (now, answer)
        return blame(before, now, answered) if before else None


def _shared(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Return a score for the messages that two steps have in common.

    The score is the number of distinct common messages, plus the length of the common prefix in messages. It is 0 if
    the steps have only system messages in common, and the previous step had other messages too. All conversations of an
    agent have the same system message, so this message does not identify a conversation.
    """
    prefix = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            break
        prefix += 1
    common = set(before) & set(now)
    if all(one.role == "system" for one in common) and len(before) > len(common):
        return 0
    return len(common) + prefix
