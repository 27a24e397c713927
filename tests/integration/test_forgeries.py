"""Ways to forge files of the repository: the check or a signature detects each.

`docs/threat-model.md` has the table; `test_the_table_names_every_forgery` compares it with this one.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from patchstack.canonical import canonical, indented
from patchstack.evidence.key import key_of
from patchstack.evidence.ledger import Decision
from patchstack.evidence.signing import Signers, sign
from patchstack.evidence.store import Record
from tests.support.checkout import ROOT
from tests.support.decided import ROWS, UNPROVEN, Decided, changed_record, decide, decide_on_switches, steps_of
from tests.support.ssh_keys import a_key, allowed

SECOND = "Use the rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgery:
    """A way to forge. `told` is a part of the check's message; None: only a signature detects it. `consistent`: all
    digests and names are made again."""

    forge: Callable[[Decided], None]
    told: str | None
    consistent: bool = False


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a workspace with four signed decisions, and the key. It is made once, and copied."""
    place = tmp_path_factory.mktemp("decided")
    with mock.patch("os.fsync"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATCHSTACK_CACHE", str(place / "cache"))
        made = decide(place / "w", place / "cache")
        decide_on_switches(made)
        key = a_key(place / "keys", "maintainer")
        for decision in made.ledger.read():
            sign(decision, made.ledger.directory, key)
    return place / "w", key


@pytest.fixture
def made(signed: tuple[Path, Path], tmp_path: Path) -> Decided:
    """Return a copy of the workspace."""
    shutil.copytree(signed[0], tmp_path / "w", symlinks=True)
    first = mock.Mock()  # a check needs no toy
    return Decided(root=tmp_path / "w", toy=first, cache=tmp_path / "cache")


def the_list(signed: tuple[Path, Path]) -> Signers:
    return allowed(signed[1])


# Steps of a forger


def records_of(made: Decided, decision: Decision, gate: str, which: str = "candidate") -> list[str]:
    """Return the keys of a gate's records."""
    step = next(step for step in steps_of(decision.evidence, gate) if step["which"] == which)
    return [str(key) for key in step["observations"]]


def first_output(made: Decided, decision: Decision) -> Path:
    """Return the file of some output of a gate."""
    key = records_of(made, decision, "greedy")[0]
    record = json.loads((made.evidence.records / f"{decision.evidence['records'][key]}.json").read_bytes())
    return made.evidence.outputs.path(record["outputs"]["stdout"]["sha256"])


def anew(world: Decided, decision: Decision, evidence: dict[str, Any], **changes: Any) -> Decision:
    """Write a decision with different evidence under its new name, and remove the old signature."""
    for path in world.ledger.directory.glob(f"{decision.id}.*.sig"):
        path.unlink()
    return world.rewrite(decision, evidence=evidence, **changes)


def rerecord(
    made: Decided, evidence: dict[str, Any], key: str, change: Callable[[Record], Record], *, rename: bool = True
) -> str:
    """Change a record, and rename it and everything that names it. Return its key."""
    old = made.evidence.read(evidence["records"].pop(key))
    new = change(old)
    new = dataclasses.replace(new, key=key_of(new.ingredients)) if rename else new
    evidence["records"][new.key] = made.evidence.keep(new)
    text = json.dumps(evidence["steps"]).replace(key, new.key)
    evidence["steps"] = json.loads(text)
    for step in evidence["steps"]:
        if "observations" in step:
            step["observations"] = sorted(step["observations"])
    return new.key


def with_stdout(content: bytes) -> Callable[[Record], Record]:
    return lambda record: dataclasses.replace(record, blobs={**record.blobs, "stdout": content})


def with_blobs(blobs: Mapping[str, bytes]) -> Callable[[Record], Record]:
    return lambda record: dataclasses.replace(record, blobs=blobs)


def with_ingredients(**changes: Any) -> Callable[[Record], Record]:
    return lambda record: dataclasses.replace(record, ingredients={**record.ingredients, **changes})


def resuited(made: Decided, evidence: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    """Change the suite in a decision, and rename it."""
    old = evidence["suite"]
    document = json.loads(made.evidence.outputs.read(old["sha256"], old["size"]) or b"")
    change(document)
    content = json.dumps(document).encode()
    evidence["suite"] = {"name": old["name"], "sha256": made.evidence.outputs.keep(content), "size": len(content)}


def edit_an_output(made: Decided) -> None:
    path = first_output(made, made.decision(SECOND))
    path.write_bytes(gzip.compress(b"another text\n"))


def alter_a_compressed_output(made: Decided) -> None:
    path = first_output(made, made.decision(SECOND))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def append_to_a_compressed_output(made: Decided) -> None:
    path = first_output(made, made.decision(SECOND))
    path.write_bytes(path.read_bytes() + gzip.compress(b"and more\n"))


def cut_a_compressed_output(made: Decided) -> None:
    path = first_output(made, made.decision(SECOND))
    path.write_bytes(path.read_bytes()[:-9])


def remove_an_output(made: Decided) -> None:
    first_output(made, made.decision(SECOND)).unlink()


def edit_a_record(made: Decided) -> None:
    decision = made.decision(SECOND)
    path = made.evidence.records / f"{decision.evidence['records'][records_of(made, decision, 'ops')[0]]}.json"
    document = json.loads(path.read_bytes())
    document["facts"]["code"] = 0
    document["facts"]["seconds"] = 0.5
    path.write_bytes(indented(document))


def remove_a_record(made: Decided) -> None:
    decision = made.decision(SECOND)
    (made.evidence.records / f"{decision.evidence['records'][records_of(made, decision, 'ops')[0]]}.json").unlink()


def edit_a_decision(made: Decided) -> None:
    path = made.ledger.directory / f"{made.decision(SECOND).id}.json"
    path.write_text(path.read_text().replace("It is good.", "It is very good."))


def an_output_with_its_digest(made: Decided) -> None:
    """Replace the output, its name, the record and the decision; the outputs now show a changed text."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    for key in records_of(made, decision, "greedy"):
        rerecord(made, evidence, key, with_stdout(b"The capital of France is Lyon.\n"))
    anew(made, decision, evidence)


def rekey_a_record(made: Decided) -> None:
    """Give a record the key of a run with a different environment; its ingredients stay."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    key = records_of(made, decision, "hello")[0]
    digest = changed_record(made, evidence["records"].pop(key), {"key": "0" * 64})
    evidence["records"]["0" * 64] = digest
    evidence["steps"] = json.loads(json.dumps(evidence["steps"]).replace(key, "0" * 64))
    anew(made, decision, evidence)


def change_an_ingredient(made: Decided) -> None:
    """Present a run without the switch as the run with it: key and names are recomputed."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    for key in records_of(made, decision, "mark"):
        rerecord(made, evidence, key, with_ingredients(env={"MARK": "2"}))
    anew(made, decision, evidence)


def take_a_record_from_another_build(made: Decided) -> None:
    """Replace the candidate's records by those of the build before it."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    steps = {step["which"]: step for step in steps_of(evidence, "greedy")}
    for key in steps["candidate"]["observations"]:
        del evidence["records"][key]
    steps["candidate"]["observations"] = steps["before"]["observations"]
    anew(made, decision, evidence)


def swap_two_records(made: Decided) -> None:
    """Exchange the records of two keys of a decision."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    one, other = records_of(made, decision, "greedy")
    records = evidence["records"]
    records[one], records[other] = records[other], records[one]
    anew(made, decision, evidence)


def swap_the_outputs_of_two_gates(made: Decided) -> None:
    """Exchange the outputs of the runs with and without a switch, and recompute all names."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    one, other = records_of(made, decision, "mark")
    blobs = {key: made.evidence.read(evidence["records"][key]).blobs for key in (one, other)}
    rerecord(made, evidence, one, with_blobs(blobs[other]))
    rerecord(made, evidence, other, with_blobs(blobs[one]))
    anew(made, decision, evidence)


def add_a_pass(made: Decided) -> None:
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    step = steps_of(evidence, "hello")[-1]
    evidence["steps"].append({**step, "name": "gate speed (candidate)", "gate": "speed"})
    anew(made, decision, evidence)


def drop_a_gate_s_step(made: Decided) -> None:
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    evidence["steps"] = [step for step in evidence["steps"] if step.get("gate") != "ops"]
    evidence["records"] = {
        key: digest
        for key, digest in evidence["records"].items()
        if any(key in step.get("observations", ()) for step in evidence["steps"])
    }
    anew(made, decision, evidence)


def turn_a_fail_into_a_pass(made: Decided) -> None:
    """Let the outputs give FAIL and the step PASS, and recompute all names."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    for key in records_of(made, decision, "hello"):
        rerecord(made, evidence, key, with_stdout(b"bye\n"))
    anew(made, decision, evidence)


def edit_a_figure(made: Decided) -> None:
    """Keep the verdict PASS, with better figures than the outputs give."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    steps_of(evidence, "drift")[-1]["actual"] = "128: 0, 256: 0"
    anew(made, decision, evidence)


def change_a_reference(made: Decided) -> None:
    """Let the suite require a different transcript than the outputs give."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))

    def other(document: dict[str, Any]) -> None:
        document["entry"]["gates"][0]["states"]["plain"]["expect"] = "0" * 32

    resuited(made, evidence, other)
    anew(made, decision, evidence)


def replay_for_another_commit(made: Decided) -> None:
    """Write the decision on the first patch again for the second."""
    first, second = made.decision("Rows a block"), made.decision(SECOND)
    anew(made, second, made.evidence_document(first))


def replay_an_older_decision(made: Decided) -> None:
    """Remove the newer decision on the same commits, so that the superseded one counts again (of format 1, if nothing
    can be checked)."""
    decision = made.decision(SECOND)
    anew(made, decision, {"steps": []}, format=1)


def change_the_tree(made: Decided) -> None:
    decision = made.decision(SECOND)
    (candidate,) = decision.candidates
    anew(
        made,
        decision,
        made.evidence_document(decision),
        candidates=(dataclasses.replace(candidate, tree="1" * 40),),
    )


def change_the_diff(made: Decided) -> None:
    decision = made.decision(SECOND)
    (candidate,) = decision.candidates
    diff = candidate.diff.replace("rows.h", "cols.h")
    anew(made, decision, made.evidence_document(decision), candidates=(dataclasses.replace(candidate, diff=diff),))


def change_the_pin(made: Decided) -> None:
    decision = made.decision(SECOND)
    anew(made, decision, made.evidence_document(decision) | {"pin": "2" * 40})


def change_the_build_s_inputs(made: Decided) -> None:
    """Use a build with a different option, under the key of the real one."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    step = next(step for step in evidence["steps"] if step["name"] == "build candidate")
    step["inputs"]["cmake"] = {"GGML_NATIVE": "ON"}
    anew(made, decision, evidence)


def a_build_of_another_tree(made: Decided) -> None:
    """Use a build of a different tree, with the matching key."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    step = next(step for step in evidence["steps"] if step["name"] == "build candidate")
    old = step["build"]
    step["inputs"]["tree"] = "3" * 40
    new = hashlib.sha256(canonical(step["inputs"])).hexdigest()
    anew(made, decision, json.loads(json.dumps(evidence).replace(old, new)))


def a_proof_that_failed(made: Decided) -> None:
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    next(step for step in evidence["steps"] if step["name"] == "build candidate")["proofs"]["exists"] = "INVALID"
    anew(made, decision, evidence)


def patch_lock_and_decision(made: Decided) -> None:
    """Edit a patch, with its digest and patch-id in the lock and in the decision."""
    from patchstack.git.format import patch_ids

    decision = made.decision(SECOND)
    (candidate,) = decision.candidates
    patches = made.workspace.series[0].patches
    path = next(patches.glob("0002*"))
    content = path.read_bytes().replace(b'"rows.h"', b'"cols.h"')
    (new_id,) = patch_ids([content])
    lock = (patches / "series.lock").read_text()
    lock = lock.replace(hashlib.sha256(path.read_bytes()).hexdigest(), hashlib.sha256(content).hexdigest())
    (patches / "series.lock").write_text(lock.replace(candidate.patch_id, new_id))
    path.write_bytes(content)
    forged = dataclasses.replace(candidate, patch_id=new_id, diff=candidate.diff.replace('"rows.h"', '"cols.h"'))
    anew(made, decision, made.evidence_document(decision), candidates=(forged,))


def the_commit_in_the_lock(made: Decided) -> None:
    """Give the commit in the lock a different tree."""
    path = made.workspace.series[0].patches / "series.lock"
    (found,) = re.findall(r'object: "([^"]*)"\n\Z', path.read_text())
    raw = base64.b64decode(found).replace(b"tree ", b"tree 0", 1)
    path.write_text(path.read_text().replace(found, base64.b64encode(raw[:46] + raw[47:]).decode()))


def invent_outputs(made: Decided) -> None:
    """Invent the candidate's outputs, so that every gate passes, and recompute all names."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    for key in records_of(made, decision, "hello"):
        rerecord(made, evidence, key, with_stdout(b"hello\n\n"))
    anew(made, decision, evidence)


def loosen_a_limit(made: Decided) -> None:
    """Loosen a limit of the suite in the decision, so that its gate passes."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))

    def looser(document: dict[str, Any]) -> None:
        document["entry"]["gates"][1]["alone"] = 0

    resuited(made, evidence, looser)
    anew(made, decision, evidence)


def without_gate(made: Decided, evidence: dict[str, Any], gate: str) -> None:
    """Take a gate out of the steps, the records and the suite."""

    def without(document: dict[str, Any]) -> None:
        document["entry"]["gates"] = [one for one in document["entry"]["gates"] if one["name"] != gate]

    resuited(made, evidence, without)
    evidence["steps"] = [step for step in evidence["steps"] if step.get("gate") != gate]
    evidence["records"] = {
        key: digest
        for key, digest in evidence["records"].items()
        if any(key in step.get("observations", ()) for step in evidence["steps"])
    }


def drop_a_gate_of_the_suite(made: Decided) -> None:
    """Leave out a gate that failed."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    without_gate(made, evidence, "ops")
    anew(made, decision, evidence)


def rename_the_machine(made: Decided) -> None:
    """Let the records name a different machine."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    without_gate(made, evidence, "drift")
    for key in list(evidence["records"]):
        rerecord(made, evidence, key, with_ingredients(hardware="linux/arm64; NVIDIA GB10 linux/arm64 host"))
    anew(made, decision, evidence)


def invent_programs(made: Decided) -> None:
    """Invent the files of the build, in the build's list and in every record."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    without_gate(made, evidence, "drift")
    step = next(step for step in evidence["steps"] if step["name"] == "build candidate")
    old = step["programs"]
    step["programs"] = {name: hashlib.sha256(name.encode()).hexdigest() for name in old}
    for key, digest in list(evidence["records"].items()):
        if made.evidence.read(digest).ingredients["programs"] == old:
            rerecord(made, evidence, key, with_ingredients(programs=step["programs"]))
    anew(made, decision, evidence)


def another_reason(made: Decided) -> None:
    decision = made.decision(SECOND)
    anew(made, decision, made.evidence_document(decision), why="The maintainers agreed.")


def backdate(made: Decided) -> None:
    decision = made.decision(SECOND)
    anew(made, decision, made.evidence_document(decision), made="2020-01-01T00:00:00+00:00")


def a_signature_over_another_digest(made: Decided) -> None:
    """Put the signature of the first decision next to the second."""
    first, second = made.decision("Rows a block"), made.decision(SECOND)
    (path,) = made.ledger.directory.glob(f"{first.id}.*.sig")
    (other,) = made.ledger.directory.glob(f"{second.id}.*.sig")
    other.write_bytes(path.read_bytes())


def keep_the_signature(made: Decided) -> None:
    """Change and rename the decision, and rename the old signature to match."""
    decision = made.decision(SECOND)
    (path,) = made.ledger.directory.glob(f"{decision.id}.*.sig")
    content = path.read_bytes()
    forged = anew(made, decision, made.evidence_document(decision), why="It is better.")
    (made.ledger.directory / f"{forged.id}.{'0' * 16}.sig").write_bytes(content)


def new_step(evidence: dict[str, Any], which: str, gate: str = "rows") -> dict[str, Any]:
    """Return the step of a gate that came with the candidate."""
    found = [one for one in evidence["steps"] if "new_of" in one and (one["gate"], one["which"]) == (gate, which)]
    (step,) = found
    return dict(step)


def only_named(evidence: dict[str, Any]) -> None:
    """Leave out the records that no step names."""
    named = {key for step in evidence["steps"] for key in step.get("observations", ())}
    evidence["records"] = {key: digest for key, digest in evidence["records"].items() if key in named}


def drop_the_result_before(made: Decided) -> None:
    decision, evidence = made.decision(ROWS), made.evidence_document(made.decision(ROWS))
    evidence["steps"].remove(new_step(evidence, "before"))
    only_named(evidence)
    anew(made, decision, evidence)


def swap_before_and_after(made: Decided) -> None:
    """Exchange the gate's results with and without the patch."""
    decision, evidence = made.decision(ROWS), made.evidence_document(made.decision(ROWS))
    before, after = new_step(evidence, "before"), new_step(evidence, "candidate")
    for old, other in ((before, after), (after, before)):
        place = evidence["steps"].index(old)
        evidence["steps"][place] = {**other, **{name: old[name] for name in ("name", "which", "build")}}
    anew(made, decision, evidence)


def a_pass_before_turned_into_a_fail(made: Decided) -> None:
    """Let the step report FAIL for a gate that passed without the patch."""
    decision, evidence = made.decision(ROWS), made.evidence_document(made.decision(ROWS))
    for key in new_step(evidence, "before")["observations"]:
        rerecord(made, evidence, key, with_stdout(b"rows: 8\n"))
    anew(made, decision, evidence)


def forget_the_gates_that_came(made: Decided) -> None:
    """Remove the gates that the commit names from the decision."""
    decision, evidence = made.decision(ROWS), made.evidence_document(made.decision(ROWS))
    evidence["steps"] = [step for step in evidence["steps"] if "new_of" not in step]
    del evidence["brings"], evidence["suites_of_new_gates"]
    only_named(evidence)
    anew(made, decision, evidence)


def call_an_old_gate_new(made: Decided) -> None:
    """Present a gate that failed before the candidate as one that came with it."""
    decision, evidence = made.decision(SECOND), made.evidence_document(made.decision(SECOND))
    evidence["brings"]["gates"].append(
        {"commit": decision.commits[0], "named": "hello", "suite": "quick", "gate": "hello"}
    )
    for step in steps_of(evidence, "hello"):
        step |= {"name": f"new gate quick/hello ({step['which']})", "new_of": "quick", "gave": "PASS"}
        if step["which"] == "before":
            step |= {"gave": "FAIL", "detail": "FAIL without the patch, as it must: it printed nothing"}
    anew(made, decision, evidence)


def drop_the_reason_of_a_switch(made: Decided) -> None:
    decision, evidence = made.decision(UNPROVEN), made.evidence_document(made.decision(UNPROVEN))
    evidence["brings"]["reason"] = None
    anew(made, decision, evidence)


def drop_an_unproven_switch(made: Decided) -> None:
    """Let the decision report that the commit has no switch without a gate."""
    decision, evidence = made.decision(UNPROVEN), made.evidence_document(made.decision(UNPROVEN))
    evidence["brings"] = {"gates": [], "unproven": [], "reason": None}
    evidence["steps"] = [step for step in evidence["steps"] if not step["name"].startswith("switch ")]
    anew(made, decision, evidence)


def pass_for_an_older_decision(made: Decided) -> None:
    """Give the decision the older form, without gates that come with patches."""
    decision, evidence = made.decision(UNPROVEN), made.evidence_document(made.decision(UNPROVEN))
    del evidence["brings"], evidence["suites_of_new_gates"]
    evidence["steps"] = [step for step in evidence["steps"] if not step["name"].startswith("switch ")]
    anew(made, decision, evidence)


def invent_a_fail_before(made: Decided) -> None:
    """Invent the gate's result without the patch."""
    decision, evidence = made.decision(ROWS), made.evidence_document(made.decision(ROWS))
    for key in new_step(evidence, "before")["observations"]:
        rerecord(made, evidence, key, with_stdout(b"rows: 0\n"))
    anew(made, decision, evidence)


FORGERIES: dict[str, Forgery] = {
    "edit an output": Forgery(forge=edit_an_output, told="lacks its stdout"),
    "alter a compressed output": Forgery(forge=alter_a_compressed_output, told="lacks its stdout"),
    "append to a compressed output": Forgery(forge=append_to_a_compressed_output, told="lacks its stdout"),
    "cut a compressed output": Forgery(forge=cut_a_compressed_output, told="lacks its stdout"),
    "remove an output": Forgery(forge=remove_an_output, told="lacks its stdout"),
    "edit a record": Forgery(forge=edit_a_record, told="has content that does not match its name"),
    "remove a record": Forgery(forge=remove_a_record, told="cannot be read"),
    "edit a decision": Forgery(forge=edit_a_decision, told="its content does not match its name"),
    "edit a commit in the lock": Forgery(forge=the_commit_in_the_lock, told="the lock has a different commit"),
    "change a build's option under its key": Forgery(
        forge=change_the_build_s_inputs, told="does not follow from its inputs"
    ),
    "swap two records": Forgery(forge=swap_two_records, told="has the key"),
    "re-key a record": Forgery(forge=rekey_a_record, told="has a key that does not match its ingredients"),
    "a signature over another digest": Forgery(
        forge=a_signature_over_another_digest, told="it is not a valid patchstack signature of this decision"
    ),
    "change a decision and keep its signature": Forgery(
        forge=keep_the_signature, told="it is not a valid patchstack signature of this decision", consistent=True
    ),
    "edit an output with its digest": Forgery(
        forge=an_output_with_its_digest, told="the outputs give FAIL, not PASS", consistent=True
    ),
    "turn a FAIL into a PASS": Forgery(
        forge=turn_a_fail_into_a_pass, told="the outputs give INVALID, not PASS", consistent=True
    ),
    "pass one run off as another": Forgery(forge=change_an_ingredient, told="no record matches it", consistent=True),
    "take a record from another build": Forgery(
        forge=take_a_record_from_another_build, told="no record matches it", consistent=True
    ),
    "swap the outputs of two runs": Forgery(
        forge=swap_the_outputs_of_two_gates, told="the outputs give FAIL, not PASS", consistent=True
    ),
    "add a PASS": Forgery(forge=add_a_pass, told="gate speed (candidate) is not in the suite", consistent=True),
    "drop a FAIL": Forgery(forge=drop_a_gate_s_step, told="gate ops (candidate) has no verdict", consistent=True),
    "edit a figure": Forgery(forge=edit_a_figure, told="but 128: 0, 256: 0 is recorded", consistent=True),
    "change a reference": Forgery(forge=change_a_reference, told="the outputs give FAIL, not PASS", consistent=True),
    "replay a decision for another commit": Forgery(
        forge=replay_for_another_commit, told="was made from a different tree", consistent=True
    ),
    "go back to format 1": Forgery(
        forge=replay_an_older_decision, told="outputs not kept, not re-derivable", consistent=True
    ),
    "change the tree": Forgery(forge=change_the_tree, told="not the tree or the parent", consistent=True),
    "change the diff": Forgery(forge=change_the_diff, told="the decision's diff is a different one", consistent=True),
    "change the pin": Forgery(forge=change_the_pin, told="its pin is not the one", consistent=True),
    "take a build of another tree": Forgery(
        forge=a_build_of_another_tree, told="was made from a different tree", consistent=True
    ),
    "leave a proof unproven": Forgery(forge=a_proof_that_failed, told="not proven: exists", consistent=True),
    "edit patch, lock and decision": Forgery(
        forge=patch_lock_and_decision, told="do not follow from the pin and the patches", consistent=True
    ),
    "drop what a new gate gave before": Forgery(
        forge=drop_the_result_before, told="new gate brought/rows (before) has no verdict", consistent=True
    ),
    "swap before and after of a new gate": Forgery(
        forge=swap_before_and_after,
        told="new gate brought/rows (before): the outputs give exit 0, without",
        consistent=True,
    ),
    "turn a new gate's PASS before into a FAIL": Forgery(
        forge=a_pass_before_turned_into_a_fail, told="the gate does not see the patch", consistent=True
    ),
    "forget the gates that came with a patch": Forgery(
        forge=forget_the_gates_that_came, told="gate rows-test came with", consistent=True
    ),
    "call an old gate new": Forgery(forge=call_an_old_gate_new, told="gate hello did not come with", consistent=True),
    "drop the reason of an unproven switch": Forgery(
        forge=drop_the_reason_of_a_switch, told="has neither a gate that shows it nor a reason", consistent=True
    ),
    "hide an unproven switch": Forgery(
        forge=drop_an_unproven_switch, told="has neither a gate that shows it nor a reason", consistent=True
    ),
    "pass an unproven switch off as older than the rule": Forgery(
        forge=pass_for_an_older_decision, told=None, consistent=True
    ),
    "invent a new gate's FAIL before": Forgery(forge=invent_a_fail_before, told=None, consistent=True),
    "invent outputs": Forgery(forge=invent_outputs, told=None, consistent=True),
    "loosen the suite": Forgery(forge=loosen_a_limit, told=None, consistent=True),
    "drop a gate from steps and suite": Forgery(forge=drop_a_gate_of_the_suite, told=None, consistent=True),
    "name another machine": Forgery(forge=rename_the_machine, told=None, consistent=True),
    "invent the build's files": Forgery(forge=invent_programs, told=None, consistent=True),
    "invent a reason": Forgery(forge=another_reason, told=None, consistent=True),
    "backdate": Forgery(forge=backdate, told=None, consistent=True),
}


def test_what_was_really_decided_holds_and_is_signed(made: Decided, signed: tuple[Path, Path]) -> None:
    assert made.wrong() == []
    assert made.wrong(the_list(signed), require_signed=True) == []
    found = made.check(the_list(signed))
    assert [one.signed_by for one in found.decisions] == [("maintainer@example.com",)] * 4


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found(name: str, made: Decided, signed: tuple[Path, Path]) -> None:
    forgery = FORGERIES[name]
    forgery.forge(made)
    wrong = made.wrong()
    if forgery.told is not None:
        assert any(forgery.told in text for text in wrong), wrong
    else:
        assert wrong == [], "only a signature finds it"
    assert made.wrong(the_list(signed), require_signed=True), "a release does not pass"


def test_there_are_twenty_and_eight_of_them_are_consistent() -> None:
    assert len(FORGERIES) >= 20
    assert sum(one.consistent for one in FORGERIES.values()) >= 8


def test_the_table_names_every_forgery() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (yes|no) \| (check|signature) \|", text, re.MULTILINE)
    wanted = [
        (name, "yes" if one.consistent else "no", "check" if one.told is not None else "signature")
        for name, one in FORGERIES.items()
    ]
    assert sorted(rows) == sorted(wanted)
