"""Find a workload in `patchstack.yaml`, or make one from a preset or kind and the settings on the command line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.bench.judge import Demand, Row
from patchstack.bench.registry import KINDS, PRESETS
from patchstack.bench.workload import DECIDING, Workload, chosen_rows, read_workload
from patchstack.causes import BadValue, SettingsRefused, SettingsUnusable, UnknownName
from patchstack.observe.declared import Arguments, values_of_options
from patchstack.observe.models import read_models
from patchstack.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A workload, the name of its kind, and the rows to compare. `why` is the reason for the margins. It is empty if
    `patchstack.yaml` states none. `demand` is None if `patchstack.yaml` sets none."""

    kind: str
    workload: Workload
    rows: tuple[Row, ...]
    why: str = ""
    demand: Demand | None = None


def read_workloads(workspace: Workspace) -> dict[str, Declared]:
    """Return the workloads of a workspace by name. Raises a `ConfigError` that lists every problem with its line."""
    problems: list[str] = []
    models = read_models(workspace, problems)
    node = workspace.workloads.complaining_to(problems) if workspace.workloads is not None else None
    found = {}
    for name, one in node.children() if node is not None else ():
        kind, why, demand = one.text("kind", required=True) or "", one.text("why"), one.text("demand")
        if demand is not None and demand not in list(Demand):
            one.complain("demand", f"{demand!r} is neither {' nor '.join(Demand)}")
        if ("margin" in one.node or "guard_margin" in one.node) and not why:
            one.complain(None, "a workload that sets a margin needs a reason in `why`")
        if kind not in KINDS:
            if kind:
                near = difflib.get_close_matches(kind, KINDS, 1)
                perhaps = f"; perhaps you meant {near[0]}" if near else ""
                one.complain("kind", f"{kind!r} is not one of {', '.join(KINDS)}{perhaps}")
            continue
        before = len(problems)
        workload, rows = read_workload(KINDS[kind](), name, one, models)
        if len(problems) == before:
            wanted = Demand(demand) if demand is not None else None
            found[name] = Declared(kind=kind, workload=workload, rows=rows, why=why or "", demand=wanted)
    if problems:
        raise SettingsUnusable(f"{workspace.path.name} cannot be used", problems=problems)
    return found


def chosen_workload(name: str, workspace: Workspace | None, *, model: str | None, settings: Sequence[str]) -> Declared:
    """Return the workload of the workspace with this name, or make one from the preset or kind with this name.

    The name `serve:METRIC` selects the kind `serve` with this `metric`. `settings` (NAME=VALUE) and `model` are only
    for a preset or kind. `model` is a file, or the name of one of the workspace's models. Raises `UsageError` if the
    name or a setting is unknown, or if a required setting is missing. Also raises `UsageError` if `settings` or `model`
    is given for a workload of the workspace, which can be changed only in `patchstack.yaml`.
    """
    declared = read_workloads(workspace) if workspace is not None else {}
    if name in declared:
        if settings or model:
            raise SettingsRefused(
                f"workload {name} of {workspace.path if workspace else ''} cannot be changed on the command line",
                hint=f"use --workload {declared[name].kind}, which accepts any settings",
            )
        return declared[name]
    kind, colon, metric = name.partition(":")
    if colon and kind == "serve":
        return _of_options(name, kind, {"metric": metric}, workspace, model=model, settings=settings)
    known = [*declared, *PRESETS, *KINDS]
    if name not in PRESETS and name not in KINDS:
        near = difflib.get_close_matches(name, known, 1)
        perhaps = f"perhaps you meant {near[0]}; " if near else ""
        raise UnknownName(
            f"workload {name} does not exist", hint=f"{perhaps}the workloads are {', '.join(dict.fromkeys(known))}"
        )
    kind_name, preset = PRESETS.get(name, (name, {}))
    return _of_options(name, kind_name, preset, workspace, model=model, settings=settings)


def _of_options(
    name: str,
    kind_name: str,
    preset: Mapping[str, str],
    workspace: Workspace | None,
    *,
    model: str | None,
    settings: Sequence[str],
) -> Declared:
    kind = KINDS[kind_name]()
    known = {setting.name: setting for setting in (*kind.settings, *DECIDING) if setting.on_command_line}
    options: dict[str, Any] = {}
    for key, value in preset.items():
        options[key] = _parsed(known[key].form.option, key, value)
    for text in settings:
        key, equals, value = text.partition("=")
        key = key.replace("-", "_")
        if not equals or key not in known:
            near = difflib.get_close_matches(key, known, 1)
            perhaps = f"perhaps you meant {near[0]}; " if near else ""
            raise BadValue(
                f"--set {text}: {'must be NAME=VALUE' if not equals else f'workload {name} has no setting {key}'}",
                hint=f"{perhaps}the settings are {', '.join(known)}",
            )
        form, option = known[key].form, known[key].form.option
        if option == list[str]:
            options.setdefault(key, []).extend(_arguments(key, value) if isinstance(form, Arguments) else [value])
        else:
            options[key] = _parsed(option, key, value)
    if model is not None:
        options["model"] = model_file(model, workspace)
    if missing := [key for key, setting in known.items() if setting.must_be_given and key not in options]:
        words = ["--model FILE" if key == "model" else f"--set {key}=VALUE" for key in missing]
        raise SettingsRefused(f"workload {name} needs {' and '.join(words)}")
    values, refuse = values_of_options((*kind.settings, *DECIDING), options)
    refuse()
    workload = kind.make(name, values)
    rows = chosen_rows(kind, workload, values)
    refuse()
    return Declared(kind=kind_name, workload=workload, rows=rows)


def model_file(model: str, workspace: Workspace | None) -> Path:
    """Return the file of a model. `model` is the name of one of the workspace's models, or a path."""
    problems: list[str] = []
    models = read_models(workspace, problems) if workspace is not None else {}
    return Path(models[model].path) if model in models else Path(model)


def _arguments(key: str, text: str) -> list[str]:
    """Parse the arguments of a setting: one argument, or a JSON array of strings. Raises `UsageError` if a text starts
    with `[` but is not a JSON array of strings."""
    if not text.startswith("["):
        return [text]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BadValue(
            f"--set {key}={text}: not a JSON array of strings", hint=f'for example: --set {key}=\'["-b","512"]\''
        )
    return list(found)


def _parsed(option: Any, key: str, text: str) -> Any:
    """Parse the value of a setting of type `option`.

    Raises `UsageError` if the text is not a value of this type.
    """
    try:
        if option is bool:
            return {"true": True, "false": False}[text]
        return option(text) if option in (int, float, str, Path) else text
    except (ValueError, KeyError) as error:
        raise BadValue(f"--set {key}={text}: the value is not of type {option.__name__}") from error
