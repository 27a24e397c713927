"""The tensor types of ggml: their numbers, names and sizes.

Source: `enum ggml_type` in `ggml/include/ggml.h`, and the block structures in `ggml/src/ggml-common.h`. Logs of older
forks name a type by its number, newer ones by its name: both are one here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A type: `block` weights take `size` bytes."""

    number: int
    name: str
    block: int
    size: int


TYPES = tuple(
    Type(*row)
    for row in (
        (0, "f32", 1, 4),
        (1, "f16", 1, 2),
        (2, "q4_0", 32, 18),
        (3, "q4_1", 32, 20),
        (6, "q5_0", 32, 22),
        (7, "q5_1", 32, 24),
        (8, "q8_0", 32, 34),
        (9, "q8_1", 32, 36),
        (10, "q2_K", 256, 84),
        (11, "q3_K", 256, 110),
        (12, "q4_K", 256, 144),
        (13, "q5_K", 256, 176),
        (14, "q6_K", 256, 210),
        (15, "q8_K", 256, 292),
        (16, "iq2_xxs", 256, 66),
        (17, "iq2_xs", 256, 74),
        (18, "iq3_xxs", 256, 98),
        (19, "iq1_s", 256, 50),
        (20, "iq4_nl", 32, 18),
        (21, "iq3_s", 256, 110),
        (22, "iq2_s", 256, 82),
        (23, "iq4_xs", 256, 136),
        (24, "i8", 1, 1),
        (25, "i16", 1, 2),
        (26, "i32", 1, 4),
        (27, "i64", 1, 8),
        (28, "f64", 1, 8),
        (29, "iq1_m", 256, 56),
        (30, "bf16", 1, 2),
        (34, "tq1_0", 256, 54),
        (35, "tq2_0", 256, 66),
        (39, "mxfp4", 32, 17),
        (40, "nvfp4", 64, 36),
        (41, "q1_0", 128, 18),
    )
)
_BY_NUMBER = {str(one.number): one for one in TYPES}
_BY_NAME = {one.name.lower(): one for one in TYPES}


def type_of(text: str) -> Type | None:
    """Return the type of that name, in any case, or of that number; None for one that is not known."""
    return _BY_NAME.get(text.lower()) or _BY_NUMBER.get(text)


def type_name(text: str) -> str:
    """Return the one name of a type that is given by name or number; a type that is not known keeps its text."""
    known = type_of(text)
    return known.name if known is not None else text


def row_bytes(type_text: str, weights: int) -> int | None:
    """Return the bytes of so many weights in whole blocks; None for a type that is not known."""
    known = type_of(type_text)
    return None if known is None else -(-weights // known.block) * known.size
