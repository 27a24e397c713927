"""From a stored build to the programs that gates run, and to the engine they run on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchstack.builds.inputs.toolchain import IMAGE_TOOLKIT
from patchstack.builds.record.record import BUILT, bin_directory
from patchstack.builds.record.store import Store, Stored
from patchstack.engine.protocol import EnginePath
from patchstack.errors import MissingError, NotHeldError
from patchstack.observe.layout import Programs


def chosen_build(store: Store, key: str | None, series: str | None) -> Stored:
    """The build of that key (or the start of it); without one the newest, of that series where one is named.

    Raises `MissingError` where there is none, `NotHeldError` for a source that did not compile.
    """
    if key is not None:
        stored = store.named(key)
        if stored.record["status"] != BUILT:
            raise NotHeldError(f"build {stored.key[:12]} has no programs: its source does not compile")
        return stored
    for stored in store.all():
        label = str(stored.record["source"]["label"])
        if stored.record["status"] == BUILT and (series is None or label.startswith((f"{series},", f"{series} "))):
            return stored
    raise MissingError(
        f"there is no build{f' of {series}' if series else ''} yet", hint="patchstack build makes one; --bin names any"
    )


def engine_of(stored: Stored) -> str:
    """The engine a build was made on, as `--engine` names it."""
    return str(stored.record["engine"]["spec"])


def programs_of(stored: Stored, *, isolated: bool, image: str | None = None) -> Programs:
    """The programs of a build, for an engine that runs containers or does not."""
    options: Mapping[str, Any] = stored.record["options"]
    toolkit = options.get("toolkit", {}).get("value") if stored.record["arch"] else None
    paths: tuple[EnginePath, ...] = ()
    library_path = None
    if toolkit is not None:
        library_path = f"{IMAGE_TOOLKIT if isolated else toolkit}/lib64"
        paths = (EnginePath(source=str(toolkit), target=IMAGE_TOOLKIT),) if isolated else ()
    return Programs(
        directory=bin_directory(stored),
        platform=str(stored.record["platform"]),
        image=image or options.get("image", {}).get("digest"),
        gpus=bool(stored.record["arch"]),
        library_path=library_path,
        paths=paths,
        key=stored.key,
        name=f"{stored.key[:12]} ({stored.record['source']['label']})",
    )
