"""A fake llama-perplexity that prints the output of a real one, and the expected results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import kl
from patchstack.gates.kinds.kl import KlSettings
from patchstack.llama.kl import Comparison, Measured, Side, Statistics, base_size, read_statistics
from patchstack.observe.protocol import Model
from patchstack.observe.runner import Runner
from tests.support.checkout import DATA
from tests.support.programs import a_bench, program

LLAMA = DATA / "llama"
CAPTURED = LLAMA / "captured"

PERPLEXITY = r"""
side=base base= model=
while [ $# -gt 0 ]; do
    case "$1" in
    --version) echo "version: 0 (abc)" >&2; exit 0 ;;
    --kl-divergence) side=test ;;
    --kl-divergence-base) base=$2; shift ;;
    -m) model=$2; shift ;;
    esac
    shift
done
cd ROOT
echo "$side ${model##*/}" >>ran
if [ $side = base ]; then cat size >"$base"; elif [ ! -f "$base" ]; then side=no-base; fi
[ -f $side.once ] && { rm $side.once; exit 0; }
cat $side.out; cat $side.err >&2; exit "$(cat $side.code)"
"""


class PerplexityTool:
    """A fake llama-perplexity with prepared output. Its base has the contents of the file `size`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        program(root / "bin", "llama-perplexity", PERPLEXITY.replace("ROOT", str(root)))
        (root / "size").write_bytes(bytes(base_size(3, 128, 288)))
        (root / "m.gguf").write_bytes(b"GGUF m")
        (root / "b.gguf").write_bytes(b"GGUF b")
        self.prints("base", CAPTURED / "perplexity")
        self.prints("test", CAPTURED / "kl")
        self.prints("no-base", CAPTURED / "kl-no-base")

    def prints(self, side: str, name: Path, code: int = 0) -> None:
        for suffix in ("out", "err"):
            (self.root / f"{side}.{suffix}").write_bytes(name.with_name(f"{name.name}.{suffix}").read_bytes())
        (self.root / f"{side}.code").write_text(str(code))

    def edit(self, file: str, old: str, new: str) -> None:
        text = (self.root / file).read_text()
        assert old in text
        (self.root / file).write_text(text.replace(old, new))

    @property
    def ran(self) -> list[str]:
        path = self.root / "ran"
        return path.read_text().splitlines() if path.exists() else []

    def spec(self, **settings: Any) -> KlSettings:
        limits = {name: settings.pop(name) for name in ("limits", "calibrate", "base_build") if name in settings}
        base = Side(model=Model(name="base", path=str(self.root / "b.gguf")))
        test = Side(model=Model(name="test", path=str(self.root / "m.gguf")))
        given = {"base": base, "test": test, "text": b"text", "context": 128, "batch": 128, "ubatch": 128, "tries": 2}
        return KlSettings(comparison=Comparison(**{**given, **settings}), **limits)

    def bench(self) -> Runner:
        return a_bench(self.root / "bin", self.root, kind="kl/1")

    def judged(self, **settings: Any) -> Judgement:
        with self.bench() as bench:
            return kl.run(self.spec(**settings), bench)


def statistics(**values: Any) -> Statistics:
    found = read_statistics((CAPTURED / "kl.out").read_bytes())
    assert found is not None
    return replace(found, **values)


def measured(*, context: int = 128, **values: Any) -> Measured:
    return Measured(context=context, statistics=statistics(**values), positions=189)
