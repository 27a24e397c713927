"""Workloads by name: those of `patchstack.yaml`, the presets, and any kind with settings from the command line."""

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
    """A workload with the kind that reads it and the rows that are compared. `why` is the reason for its margins and
    `demand` its demand, if `patchstack.yaml` has them."""

    kind: str
    workload: Workload
    rows: tuple[Row, ...]
    why: str = ""
    demand: Demand | None = None


def read_workloads(workspace: Workspace) -> dict[str, Declared]:
    """Return the workloads of a workspace. Raises `ConfigError` with every complaint, each with its line."""
    problems: list[str] = []
    models = read_models(workspace, problems)
    node = workspace.workloads.complaining_to(problems) if workspace.workloads is not None else None
    found = {}
    for name, one in node.children() if node is not None else ():
        kind, why, demand = one.text("kind", required=True) or "", one.text("why"), one.text("demand")
        if demand is not None and demand not in list(Demand):
            one.complain("demand", f"{demand!r} is neither {' nor '.join(Demand)}")
        if ("margin" in one.node or "guard_margin" in one.node) and not why:
            one.complain(None, "its own margin needs a reason: why")
        if kind not in KINDS:
            if kind:
                near = difflib.get_close_matches(kind, KINDS, 1)
                perhaps = f"; perhaps {near[0]}" if near else ""
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
    """Return the workload of that name: of the workspace, a preset, or a kind with `settings` (NAME=VALUE).

    `model` is a file, or the name of one of the workspace's models. Raises `UsageError` for an unknown name or setting,
    and for settings of a workload that the workspace declares, because those are policy.
    """
    declared = read_workloads(workspace) if workspace is not None else {}
    if name in declared:
        if settings or model:
            raise SettingsRefused(
                f"workload {name} is declared in {workspace.path if workspace else ''}: it takes no settings here",
                hint=f"its settings are policy; --workload {declared[name].kind} takes any",
            )
        return declared[name]
    kind, colon, metric = name.partition(":")
    if colon and kind == "serve":
        return _of_options(name, kind, {"metric": metric}, workspace, model=model, settings=settings)
    known = [*declared, *PRESETS, *KINDS]
    if name not in PRESETS and name not in KINDS:
        near = difflib.get_close_matches(name, known, 1)
        perhaps = f"perhaps you meant {near[0]}; " if near else ""
        raise UnknownName(f"there is no workload {name}", hint=f"{perhaps}known: {', '.join(dict.fromkeys(known))}")
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
                f"--set {text}: {'written as NAME=VALUE' if not equals else f'workload {name} has no setting {key}'}",
                hint=f"{perhaps}known: {', '.join(known)}",
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
    """Return the file of a model: one of the workspace by its name, or any file."""
    problems: list[str] = []
    models = read_models(workspace, problems) if workspace is not None else {}
    return Path(models[model].path) if model in models else Path(model)


def _arguments(key: str, text: str) -> list[str]:
    """Parse the arguments of a setting: a single one, or a JSON array of them. Raises `UsageError` for an array of
    other values."""
    if not text.startswith("["):
        return [text]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BadValue(f"--set {key}={text}: it is not a list of texts", hint=f'--set {key}=\'["-b","512"]\'')
    return list(found)


def _parsed(option: Any, key: str, text: str) -> Any:
    """Parse the value of a setting."""
    try:
        if option is bool:
            return {"true": True, "false": False}[text]
        return option(text) if option in (int, float, str, Path) else text
    except (ValueError, KeyError) as error:
        raise BadValue(f"--set {key}={text}: it is not of type {option.__name__}") from error
