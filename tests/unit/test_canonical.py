"""Every form of JSON for digests and stored files, byte for byte."""

from __future__ import annotations

import json

import pytest

from patchstack.canonical import canonical, indented, one_line

VALUE = {"b": [1, 2.5, None, True], "a": {"ü": "grün\n\u2028\U0001f600", "Z": "</\x7f>"}, "": []}


def test_the_form_of_digests() -> None:
    assert canonical(VALUE) == (
        b'{"":[],"a":{"Z":"</\\u007f>","\\u00fc":"gr\\u00fcn\\n\\u2028\\ud83d\\ude00"},"b":[1,2.5,null,true]}'
    )


def test_the_form_of_digests_in_utf_8() -> None:
    assert canonical(VALUE, ascii=False) == (
        '{"":[],"a":{"Z":"</\x7f>","ü":"grün\\n\u2028\U0001f600"},"b":[1,2.5,null,true]}'.encode()
    )


def test_the_form_of_one_document_a_line() -> None:
    line = one_line(VALUE)
    assert line == (
        '{"": [], "a": {"Z": "</\\u007f>", "\\u00fc": "gr\\u00fcn\\n\\u2028\\ud83d\\ude00"}, "b": [1, 2.5, null, true]}'
    )
    assert len(line.splitlines()) == 1, "also for who takes U+2028 for the end of a line"


def test_the_form_of_files() -> None:
    assert indented(VALUE) == (
        b'{\n  "": [],\n  "a": {\n    "Z": "</\\u007f>",\n    "\\u00fc": "gr\\u00fcn\\n\\u2028\\ud83d\\ude00"\n  },\n'
        b'  "b": [\n    1,\n    2.5,\n    null,\n    true\n  ]\n}\n'
    )


def test_the_form_of_files_in_utf_8() -> None:
    assert indented({"why": "langsamer: ü"}, ascii=False) == '{\n  "why": "langsamer: ü"\n}\n'.encode()


def test_the_order_in_which_a_value_was_made_changes_no_form() -> None:
    turned = dict(reversed(VALUE.items()))
    assert list(turned) != list(VALUE)
    for form in (canonical, one_line, indented):
        assert form(turned) == form(VALUE)
    assert json.loads(canonical(turned)) == VALUE


def test_what_no_text_can_hold_is_an_error_in_utf_8_and_escaped_in_ascii() -> None:
    assert canonical("\udc80") == b'"\\udc80"'
    with pytest.raises(UnicodeEncodeError):
        canonical("\udc80", ascii=False)
