"""Records of builds, for tests that need a build in the store and no compiler."""

from __future__ import annotations

from collections.abc import Mapping

from patchstack.builds.proofs.claim import Proof
from patchstack.builds.record.record import BUILT, BuildDocument, EngineEntry, OptionEntry, OptionsEntry, SourceEntry


def a_record(
    key: str,
    *,
    proofs: tuple[Proof, ...] = (),
    finished: str = "2026-01-01T00:00:00+00:00",
    label: str = "paged, 2 patches",
    variant: str = "cpu",
    inputs: Mapping[str, object] | None = None,
    engine: str = "host",
    platform: str = "linux/amd64",
) -> BuildDocument:
    """Return the record of a CPU build of a series. Its options are fixed, as no test reads them."""
    default = OptionEntry(value=None, origin="default")
    return BuildDocument(
        key=key,
        status=BUILT,
        engine=EngineEntry(spec=engine, kind="host", endpoint="this machine", version="1", platform=platform),
        variant=variant,
        platform=platform,
        arch=None,
        source=SourceEntry(
            label=label, tree="a" * 40, pin="b" * 40, upstream=None, series="holds", patches=(), absent=()
        ),
        options=OptionsEntry(
            variant=default,
            engine=default,
            platform=default,
            targets=default,
            jobs=default,
            memory=default,
            cpus=default,
            time=default,
            ccache=OptionEntry(value=False, origin="default"),
            toolchain=default,
            cmake={},
            compile={},
        ),
        inputs=dict(inputs or {}),
        notes=(),
        started=finished,
        finished=finished,
        wall_s=1.0,
        seconds={},
        ccache=None,
        binaries=(),
        proofs=proofs,
        rejection=None,
    )
