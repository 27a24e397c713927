"""Declared settings: one declaration, read from a suite and from options, with the complaints of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.errors import MissingError, UsageError
from patchstack.gates.registry import KINDS
from patchstack.observe.declared import (
    NO_ARGS,
    NO_MODEL,
    Args,
    Arguments,
    BuildDirectory,
    FileContent,
    Flag,
    Form,
    Group,
    ModelName,
    Named,
    Pattern,
    Patterns,
    Setting,
    Text,
    Texts,
    Values,
    Variables,
    Whole,
    positive,
    read_values,
    values_of_options,
)
from patchstack.observe.protocol import Model
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node

MODELS = {"tiny": Model(name="tiny", path="/models/tiny.gguf")}


def setting(form: Form[Any], default: Any = None, **more: Any) -> Setting[Any]:
    return Setting[Any](name="some_thing", form=form, default=default, help="What it is.", **more)


def in_suite(tmp_path: Path, text: str, *settings: Setting[Any]) -> tuple[Values, list[str]]:
    path = tmp_path / "patchstack.yaml"
    path.write_text(text)
    problems: list[str] = []
    node = Node(read_yaml(path), path, "", problems)
    values = read_values(node, settings, MODELS)
    node.finish()
    return values, problems


@pytest.mark.parametrize(
    ("form", "written", "option", "value"),
    [
        (Whole(0, 9), "7", 7, 7),
        (Whole(0, 9), "0", 0, 0),
        (positive(2), "0.5", 0.5, 0.5),
        (Text(), "words", "words", "words"),
        (Flag(), "true", True, True),
        (Texts(), "[a, b]", ["a", "b"], ("a", "b")),
        (Pattern(), "^a+$", "^a+$", "^a+$"),
        (Pattern(words=("none",)), "none", "none", "none"),
        (Patterns(), "a+", ["a+"], ("a+",)),
        (Patterns(), "[a+, b]", ["a+", "b"], ("a+", "b")),
        (Variables(), "{B: 1, A: x}", ["B=1", "A=x"], (("A", "x"), ("B", "1"))),
        (Arguments(), "[-v]", ["-v"], Args(args=("-v",))),
    ],
)
def test_a_setting_has_the_same_value_from_a_suite_and_from_an_option(
    tmp_path: Path, form: Form[Any], written: str, option: Any, value: object
) -> None:
    one = setting(form)
    values, problems = in_suite(tmp_path, f"some_thing: {written}\n", one)
    opted, refuse = values_of_options((one,), {"some_thing": option})
    refuse()
    assert (values[one], problems) == (value, [])
    assert opted[one] == value
    assert values.chosen(one) and opted.chosen(one)


@pytest.mark.parametrize(
    ("form", "written", "option", "told"),
    [
        (Whole(1, 9), "10", 10, "must be from 1 to 9, not 10"),
        (positive(2), "0", 0.0, "is not a number above 0, up to 2"),
        (positive(2), "3", 3.0, "is not a number above 0, up to 2"),
        (Text(check=lambda text: f"{text} is wrong"), "x", "x", "x is wrong"),
        (Texts(check=lambda text: "wrong" if text == "b" else None), "[a, b]", ["a", "b"], "wrong"),
        (Pattern(), "(", "(", "'(' is not a regular expression"),
        (Patterns(), "[a, ('']", ["a", "("], "is not a regular expression"),
        (Arguments(), "['{model:big}']", ["{model:big}"], "there is no model 'big'"),
    ],
)
def test_a_value_that_cannot_be_used_is_told_with_its_line_or_its_option(
    tmp_path: Path, form: Form[Any], written: str, option: Any, told: str
) -> None:
    one = setting(form, default="the default")
    values, problems = in_suite(tmp_path, f"# a line\nsome_thing: {written}\n", one)
    assert [problem.startswith(f"{tmp_path}/patchstack.yaml:2: some_thing: ") for problem in problems] == [True]
    assert told in problems[0]
    opted, refuse = values_of_options((one,), {"some_thing": option})
    with pytest.raises(UsageError) as error:
        refuse()
    assert error.value.problems[0].startswith("--some-thing: ")
    assert told in error.value.problems[0]
    if not isinstance(form, Texts | Patterns | Arguments):
        assert values[one] == opted[one] == "the default"


def test_what_is_missing_or_empty_or_unknown_is_told(tmp_path: Path) -> None:
    one = setting(Text(), default="x", required=True)
    assert in_suite(tmp_path, "other: 1\n", one)[1] == [
        f"{tmp_path}/patchstack.yaml:1: some_thing is missing",
        f"{tmp_path}/patchstack.yaml:1: other: unknown key (known: some_thing)",
    ]
    assert "some_thing is empty" in in_suite(tmp_path, "some_thing:\n", replace(one, required=False))[1][0]
    values, problems = in_suite(tmp_path, "some_thing: x\n", replace(one, in_suite=False))
    assert "unknown key" in problems[0]
    assert not values.chosen(one)


def test_a_second_complaint_about_a_value_that_was_complained_of_is_left_out(tmp_path: Path) -> None:
    one = setting(Whole(1, 9), default=1)
    values, problems = in_suite(tmp_path, "some_thing: 10\n", one)
    values.complain("some_thing", "is not as it should be")
    assert len(problems) == 1
    values, problems = in_suite(tmp_path, "some_thing: 3\n", one)
    values.complain_all([("some_thing", "is not as it should be"), ("", "nor is the whole")])
    assert [problem.partition(": ")[2] for problem in problems] == [
        "some_thing: is not as it should be",
        "nor is the whole",
    ]


def test_a_setting_without_effect_is_refused_in_a_suite_and_let_pass_as_an_option(tmp_path: Path) -> None:
    one = setting(Whole(1, 9), default=1)
    values, problems = in_suite(tmp_path, "some_thing: 1\n", one)
    values.unused((one,), "has no effect")
    assert len(problems) == 1
    opted, refuse = values_of_options((one,), {"some_thing": 5})
    opted.unused((one,), "has no effect")
    refuse()


def test_models_are_names_in_a_suite_and_files_as_options(tmp_path: Path) -> None:
    model = Setting[Model](name="model", form=ModelName(), default=NO_MODEL, help="A model.")
    args = Setting[Args](name="args", form=Arguments(), default=NO_ARGS, help="Arguments.")
    values, problems = in_suite(tmp_path, "model: tiny\nargs: ['{model:tiny}']\n", model, args)
    assert (values[model], values[args].models, problems) == (MODELS["tiny"], (MODELS["tiny"],), [])
    opted, refuse = values_of_options((args, model), {"args": ["{model:model}"], "model": Path("x.gguf")})
    refuse()
    assert opted[model] == Model(name="model", path=str(Path("x.gguf").absolute()))
    assert opted[args].models == (opted[model],)
    assert "there is no model 'huge'" in in_suite(tmp_path, "model: huge\n", model)[1][0]


def test_files_are_beside_the_workspace_or_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = setting(FileContent(), default=b"")
    (tmp_path / "t.txt").write_text("words")
    assert in_suite(tmp_path, "some_thing: t.txt\n", text)[0][text] == b"words"
    assert "none.txt cannot be read" in in_suite(tmp_path, "some_thing: none.txt\n", text)[1][0]
    monkeypatch.chdir(tmp_path)
    assert values_of_options((text,), {"some_thing": Path("t.txt")})[0][text] == b"words"
    with pytest.raises(MissingError, match=r"none\.txt cannot be read"):
        values_of_options((text,), {"some_thing": Path("none.txt")})
    build = setting(BuildDirectory())
    assert values_of_options((build,), {"some_thing": Path("old")})[0][build] == str(tmp_path / "old")


def test_options_that_are_no_variables_are_all_told() -> None:
    with pytest.raises(UsageError) as error:
        values_of_options((setting(Variables()),), {"some_thing": ["A", "LD_PRELOAD=x", "B=1"]})
    assert error.value.message == "--some-thing cannot be used"
    assert error.value.problems[0] == "--some-thing A: must be NAME=VALUE"
    assert "LD_PRELOAD is set by the engine" in error.value.problems[1]


def test_mappings_have_settings_of_their_own(tmp_path: Path) -> None:
    inner = Setting[int](name="size", form=Whole(1, 9), default=2, help="A size.")
    group = setting(Group(settings=(inner,)))
    values, problems = in_suite(tmp_path, "some_thing: {size: 12, sise: 1}\n", group)
    assert [problem.partition(": ")[2] for problem in problems] == [
        "some_thing.size: must be from 1 to 9, not 12",
        "some_thing.sise: unknown key, perhaps you meant size",
    ]
    assert values[group][inner] == 2
    named = setting(Named(settings=(inner,), make=lambda name, own: (name, own[inner])))
    values, problems = in_suite(tmp_path, "some_thing: {a: {size: 3}, b: {}}\n", named)
    assert (values[named], problems) == ((("a", 3), ("b", 2)), [])
    for one in (group, named):
        with pytest.raises(UsageError, match="cannot run with these settings"):
            values_of_options((one,), {"some_thing": "x"})[1]()


def test_an_option_that_was_left_at_its_default_was_not_chosen() -> None:
    one = setting(Whole(0, 99), default=48, option_default=16)
    for opted, chosen in ((16, False), (48, True), (0, True)):
        values, _ = values_of_options((one,), {"some_thing": opted})
        assert (values[one], values.chosen(one)) == (opted, chosen)
    assert values_of_options((one,), {})[0][one] == 48
    flag = setting(Flag(), default=False)
    assert not values_of_options((flag,), {"some_thing": False})[0].chosen(flag)


@given(st.integers(), st.integers(0, 5), st.integers(5, 50))
def test_a_number_is_taken_exactly_within_its_bounds(number: int, least: int, most: int) -> None:
    one = setting(Whole(least, most), default=None)
    values, refuse = values_of_options((one,), {"some_thing": number})
    if least <= number <= most:
        refuse()
        assert values[one] == number
    else:
        with pytest.raises(UsageError, match="cannot run with these settings"):
            refuse()


def settings_below(settings: Sequence[Setting[Any]]) -> list[Setting[Any]]:
    """Yield the settings, and those of the mappings among them."""
    inner = [one.form.settings for one in settings if isinstance(one.form, Group | Named)]
    return [*settings, *(one for each in inner for one in settings_below(each))]


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_of_a_kind_has_a_place_a_value_and_a_sentence(name: str) -> None:
    kind = KINDS[name].load()
    assert (kind.name, kind.key) == (name, f"{name}/{kind.version}")
    names = [one.name for one in kind.settings]
    flags = [one.option_name for one in kind.settings if one.on_command_line]
    assert len(set(names)) == len(names)
    assert len(set(flags)) == len(flags)
    assert not {"--bin", "--engine", "--image", "--again", "--json"} & set(flags)
    for one in settings_below(kind.settings):
        assert one.in_suite or one.on_command_line
        assert one.help.endswith(".")
        assert one.form.written
        if one.on_command_line and one in kind.settings:
            assert one.form.option is not None
            assert one.form.option is bool or one.metavar
