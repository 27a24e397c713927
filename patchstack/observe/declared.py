"""Declare the settings of kinds of checks and workloads.

A kind declares each setting once, as a `Setting`. The reader of `patchstack.yaml`, the command line and the reference
are derived from this declaration. The form of a setting (one of the classes below, or a class of the kind) defines
which values are valid.

Values come from a suite or from options. Only `Values` knows which, so only `Values` writes complaints. A complaint
names a line of `patchstack.yaml`, or an option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from patchstack.causes import InputMissing, SettingsRefused
from patchstack.observe.from_build import read_build
from patchstack.observe.protocol import Model
from patchstack.observe.settings import (
    Environment,
    arguments,
    bounded,
    environment,
    models_named,
    pattern,
    pattern_problem,
    patterns,
    unknown_model,
    variable_problem,
)
from patchstack.observe.settings import model as read_model
from patchstack.workspace import located
from patchstack.workspace.node import Node

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Models = Mapping[str, Model]
"""Models by the names that suites and `{model:NAME}` use."""
Problems = Iterable[tuple[str, str]]
"""Problems with settings, as pairs of the setting's name and a message."""

NO_MODEL = Model(name="", path="")
"""The value of a model setting if no model is given."""


class Refused(ValueError):
    """A form rejects the value of an option. The message states the reason."""


class Form(Protocol[T_co]):
    """The format of a setting's value, in a suite and on the command line."""

    @property
    def written(self) -> str:
        """The description of the format in a suite, for the reference."""
        ...

    @property
    def option(self) -> Any:
        """The Python type of the option's value. It is a list if the option can be repeated."""
        ...

    def read(self, node: Node, name: str, models: Models) -> T_co | None:
        """Return the value of a suite entry's key `name`, which must exist. Return None after a complaint."""
        ...

    def convert(self, given: Any, name: str, models: Models) -> T_co:
        """Return the value of an option.

        Raises `Refused` with the reason, or a `PatchstackError` with a complete message.
        """
        ...


@dataclass(frozen=True, kw_only=True)  # CPython 3.11 cannot create `Setting[int](…)` with slots
class Setting(Generic[T]):
    """A setting of a kind of check or workload.

    `default` is the value if none is given. `help` describes the setting in one sentence. `unit` is the unit of a
    number. A `required` setting must be given. `in_suite` and `on_command_line` show where the setting can be used.
    `flag` is the name of its option; by default, it is derived from `name`. `metavar` is the placeholder for the
    option's value in the help. On the command line, `option_required` and `option_default` override `required` and
    `default`.
    """

    name: str
    form: Form[T]
    default: T
    help: str
    unit: str = ""
    metavar: str | None = None
    flag: str = ""
    required: bool = False
    in_suite: bool = True
    on_command_line: bool = True
    option_required: bool | None = None
    option_default: object = None

    @property
    def option_name(self) -> str:
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def must_be_given(self) -> bool:
        """Whether the command line requires the option."""
        return self.required if self.option_required is None else self.option_required

    @property
    def shown_default(self) -> object:
        """The default that the help shows. None unless the default is a number or a non-empty string."""
        value = self.default if self.option_default is None else self.option_default
        return value if isinstance(value, int | float | str) and value != "" else None


class Values:
    """The values of an entry's settings, with methods that add complaints about the entry."""

    def __init__(
        self,
        found: Mapping[str, object],
        chosen: frozenset[str],
        *,
        written: Callable[[str], str],
        complain: Callable[[str | None, str], None],
        node: Node | None = None,
        complained: frozenset[str] = frozenset(),
    ) -> None:
        self._found = found
        self._chosen = chosen
        self._complain = complain
        self._complained = set(complained)
        self.written = written
        self.node = node

    def __getitem__(self, setting: Setting[T]) -> T:
        return cast(T, self._found.get(setting.name, setting.default))

    def chosen(self, setting: Setting[Any]) -> bool:
        """Return whether the user set the value: in a suite, or as an option with a value other than the default."""
        return setting.name in self._chosen

    def complain(self, name: str, text: str) -> None:
        """Complain about a setting. If the name is empty, complain about the whole entry.

        Nothing is added if `missing`, or the reading of the value, has already complained about the setting.
        """
        if name not in self._complained:
            self._complain(name or None, text)

    def missing(self, setting: Setting[Any], text: str) -> None:
        """Complain about a setting that is not given. Later complaints about this setting are ignored."""
        self.complain(setting.name, text)
        self._complained.add(setting.name)

    def complain_all(self, problems: Problems) -> None:
        for name, text in problems:
            self.complain(name, text)

    def unused(self, settings: Sequence[Setting[Any]], why: str) -> None:
        """Complain about suite settings that have no effect. `why` is the message. Options are not checked."""
        for setting in settings if self.node is not None else ():
            if self.chosen(setting):
                self.complain(setting.name, why)


def read_values(node: Node, settings: Sequence[Setting[Any]], models: Models) -> Values:
    """Return the values of a suite entry, or of a mapping in the entry.

    Complaints are added to the node. Settings that exist only on the command line keep their defaults.
    """
    found: dict[str, object] = {}
    chosen: set[str] = set()
    complained: set[str] = set()
    for setting in settings:
        if not setting.in_suite:
            continue
        before = len(node.problems)
        if node.has(setting.name, required=setting.required):
            chosen.add(setting.name)
            value = setting.form.read(node, setting.name, models)
            if value is not None:
                found[setting.name] = value
        if len(node.problems) > before:
            complained.add(setting.name)
    return Values(
        found,
        frozenset(chosen),
        written=lambda name: f"{name}:",
        complain=lambda name, text: node.complain(name if name in node.node else None, text),
        node=node,
        complained=frozenset(complained),
    )


def values_of_options(
    settings: Sequence[Setting[Any]], options: Mapping[str, Any]
) -> tuple[Values, Callable[[], None]]:
    """Return the values of options, and a function that reports all complaints.

    `options` contains the given values by the names of their settings. The caller calls the returned function at the
    end. It raises `UsageError` with every complaint, if there are any. A `PatchstackError` of a form's `convert` is
    raised at once.
    """
    flags = {setting.name: setting.option_name for setting in settings if setting.on_command_line}
    problems: list[str] = []
    found: dict[str, object] = {}
    complained: set[str] = set()
    models: dict[str, Model] = {}
    given = [one for one in settings if one.on_command_line and options.get(one.name) not in (None, [], ())]
    # Models first, because arguments refer to them.
    for setting in sorted(given, key=lambda one: not isinstance(one.form, ModelName)):
        try:
            value = setting.form.convert(options[setting.name], setting.name, models)
        except Refused as error:
            problems.append(f"{setting.option_name}: {error}")
            complained.add(setting.name)
            continue
        found[setting.name] = value
        if isinstance(value, Model):
            models[value.name] = value

    def written(name: str) -> str:
        return flags.get(name, f"--{name.replace('_', '-')}")

    def refuse() -> None:
        if problems:
            raise SettingsRefused("the gate cannot run with these settings", problems=problems)

    values = Values(
        found,
        frozenset(
            one.name for one in given if options[one.name] != one.shown_default and options[one.name] is not False
        ),
        written=written,
        complain=lambda name, text: problems.append(f"{written(name)}: {text}" if name else text),
        complained=frozenset(complained),
    )
    return values, refuse


# Forms


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within limits."""

    least: int
    most: int
    option: Any = int

    @property
    def written(self) -> str:
        return f"a whole number, {self.least} to {self.most}"

    def read(self, node: Node, name: str, models: Models) -> int | None:
        before = len(node.problems)
        value = bounded(node, name, default=self.least, least=self.least, most=self.most)
        return value if len(node.problems) == before else None

    def convert(self, given: int, name: str, models: Models) -> int:
        if not self.least <= given <= self.most:
            raise Refused(f"must be from {self.least} to {self.most}, not {given}")
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number for which `holds` is true. For other numbers, the message is the number followed by `problem`."""

    written: str
    holds: Callable[[float], bool]
    problem: str
    option: Any = float

    def read(self, node: Node, name: str, models: Models) -> float | None:
        value = node.node.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and self.holds(value):
            return float(value)
        node.complain(name, f"{str(value)[:40]!r} {self.problem}")
        return None

    def convert(self, given: float, name: str, models: Models) -> float:
        if not self.holds(given):
            raise Refused(f"{given:g} {self.problem}")
        return given


def positive(most: float) -> Number:
    """Return the form of a number above 0, up to `most`."""
    return Number(
        written=f"a number above 0, up to {most:g}",
        holds=lambda value: 0 < value <= most,
        problem=f"is not a number above 0, up to {most:g}",
    )


@dataclass(frozen=True, slots=True)
class Text:
    """A string. `check` returns the problem with a string, or None if it is valid."""

    written: str = "text"
    check: Callable[[str], str | None] = lambda text: None
    option: Any = str

    def read(self, node: Node, name: str, models: Models) -> str | None:
        text = node.text(name)
        if text is not None and (problem := self.check(text)):
            node.complain(name, problem)
            return None
        return text

    def convert(self, given: str, name: str, models: Models) -> str:
        if problem := self.check(given):
            raise Refused(problem)
        return given


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    written: str = "true or false"
    option: Any = bool

    def read(self, node: Node, name: str, models: Models) -> bool | None:
        return node.boolean(name)

    def convert(self, given: bool, name: str, models: Models) -> bool:
        return given


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of strings. `check` returns the problem with a string, or None if it is valid."""

    written: str = "a list of texts"
    check: Callable[[str], str | None] = lambda text: None
    option: Any = list[str]

    def read(self, node: Node, name: str, models: Models) -> tuple[str, ...] | None:
        texts = node.texts(name)
        for problem in filter(None, map(self.check, texts or ())):
            node.complain(name, problem)
        return texts

    def convert(self, given: Sequence[str], name: str, models: Models) -> tuple[str, ...]:
        for problem in filter(None, map(self.check, given)):
            raise Refused(problem)
        return tuple(given)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression, or one of the special values in `words`."""

    words: tuple[str, ...] = ()
    option: Any = str

    @property
    def written(self) -> str:
        return " or ".join(("a regular expression", *(f"`{word}`" for word in self.words)))

    def read(self, node: Node, name: str, models: Models) -> str | None:
        return node.text(name) if node.node.get(name) in self.words else pattern(node, name)

    def convert(self, given: str, name: str, models: Models) -> str:
        if given not in self.words and (problem := pattern_problem(given)):
            raise Refused(problem)
        return given


@dataclass(frozen=True, slots=True)
class Patterns:
    """Regular expressions. In a suite, a single expression need not be in a list."""

    written: str = "a regular expression, or a list of regular expressions"
    option: Any = list[str]

    def read(self, node: Node, name: str, models: Models) -> tuple[str, ...] | None:
        return patterns(node, name)

    def convert(self, given: Sequence[str], name: str, models: Models) -> tuple[str, ...]:
        if problems := list(filter(None, map(pattern_problem, given))):
            raise Refused("; ".join(problems))
        return tuple(given)


@dataclass(frozen=True, slots=True)
class Variables:
    """Environment variables: a mapping in a suite, `NAME=VALUE` as an option."""

    written: str = "a mapping of names to texts or whole numbers"
    option: Any = list[str]

    def read(self, node: Node, name: str, models: Models) -> Environment | None:
        return environment(node, name)

    def convert(self, given: Sequence[str], name: str, models: Models) -> Environment:
        option = f"--{name.replace('_', '-')}"
        pairs = [text.partition("=") for text in given]
        problems = [f"{option} {key}: must be NAME=VALUE" for key, equals, _ in pairs if not equals]
        problems += [problem for key, equals, _ in pairs if equals and (problem := variable_problem(key))]
        if problems:
            raise SettingsRefused(f"{option} cannot be used", problems=problems)
        return tuple(sorted({key: value for key, _, value in pairs}.items()))


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model: the name of a workspace model in a suite, or a file on the command line."""

    written: str = "a name of `models:`"
    option: Any = Path

    def read(self, node: Node, name: str, models: Models) -> Model | None:
        return read_model(node, models, name)

    def convert(self, given: Path, name: str, models: Models) -> Model:
        return Model(name=name, path=str(given.expanduser().absolute()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Arguments of a program, with the models that they refer to as `{model:NAME}`."""

    args: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()


NO_ARGS = Args()
"""No arguments."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """A list of arguments. `{model:NAME}` stands for the path of a model."""

    written: str = "a list of texts; `{model:NAME}` is a model's path"
    option: Any = list[str]

    def read(self, node: Node, name: str, models: Models) -> Args | None:
        args, named = arguments(node, models, name)
        return Args(args=args, models=named)

    def convert(self, given: Sequence[str], name: str, models: Models) -> Args:
        named = models_named(given)
        if strangers := [one for one in named if one not in models]:
            raise Refused(unknown_model(strangers[0], models))
        return Args(args=tuple(given), models=tuple(models[one] for one in named))


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file. In a suite, the file's path is relative to the workspace file."""

    written: str = "a file, relative to the workspace file"
    option: Any = Path

    def read(self, node: Node, name: str, models: Models) -> bytes | None:
        text = node.text(name)
        if text is None:
            return None
        try:
            return (node.path.parent / text).expanduser().read_bytes()
        except OSError as error:
            node.complain(name, f"{text} cannot be read: {error.strerror}")
            return None

    def convert(self, given: Path, name: str, models: Models) -> bytes:
        try:
            return given.read_bytes()
        except OSError as error:
            hint = f"name a readable file: --{name} FILE"
            raise InputMissing(f"the {name} {given} cannot be read: {error.strerror}", hint=hint) from error


@dataclass(frozen=True, slots=True)
class BuildName:
    """A build: the key of a stored build, or a directory of programs."""

    written: str = "a build's key, or a directory of programs"
    option: Any = str

    def read(self, node: Node, name: str, models: Models) -> str | None:
        return read_build(node, name)

    def convert(self, given: str, name: str, models: Models) -> str:
        return given


@dataclass(frozen=True, slots=True)
class BuildDirectory(BuildName):
    """A build. On the command line it can only be a directory."""

    option: Any = Path

    def convert(self, given: Any, name: str, models: Models) -> str:
        return located(str(given), Path.cwd())


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A mapping with its own settings. It exists only in suites."""

    settings: tuple[Setting[Any], ...]
    written: str = "a mapping"
    option: Any = field(default=None, init=False)

    def read(self, node: Node, name: str, models: Models) -> Values | None:
        child = node.mapping(name)
        if child is None:
            return None
        values = read_values(child, self.settings, models)
        child.finish()
        return values

    def convert(self, given: Any, name: str, models: Models) -> Values:
        raise Refused("can be set only in a suite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Generic[T]):
    """A mapping of names to mappings with their own settings. It exists only in suites.

    `make` creates a value from a name and its settings.
    """

    settings: tuple[Setting[Any], ...]
    make: Callable[[str, Values], T]
    written: str = "a mapping of names to mappings"
    option: Any = field(default=None, init=False)

    def read(self, node: Node, name: str, models: Models) -> tuple[T, ...] | None:
        child = node.mapping(name)
        if child is None:
            return None
        found = []
        for key, one in child.children():
            found.append(self.make(key, read_values(one, self.settings, models)))
            one.finish()
        return tuple(found)

    def convert(self, given: Any, name: str, models: Models) -> tuple[T, ...]:
        raise Refused("can be set only in a suite")
