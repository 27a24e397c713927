"""The hardware of a machine, from nvidia-smi and the kernel."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from patchstack.errors import MissingError
from patchstack.machine.ask import Reply, here, read_parts
from patchstack.machine.gpu.classes import GpuClass, classify, conclusions, of_all
from patchstack.machine.hardware import Hardware, hardware, read_hardware
from patchstack.machine.probe import SCRIPT, number, probe, rows
from patchstack.report.documents.gpu import hardware_entry
from patchstack.report.machine import hardware_lines
from tests.support import smi
from tests.support.smi import Smi


def ok(text: str) -> Reply:
    return Reply(code=0, text=text)


SPARK = {
    "kernel": ok("Linux 6.14.0-1013-nvidia aarch64\n"),
    "host": ok("promaxgb10-4ad8\n"),
    "boot": ok("82bb039b-dac4-484b-bdf7-474f242cd5dc\n"),
    "cpus": ok("20\n"),
    "cpu": ok("CPU part\t: 0xd85\nCPU part\t: 0xd87\n"),
    "memory": ok("MemTotal:       127601388 kB\n"),
    "contained": ok(""),
    "smi": ok(""),
    "gpus": ok(smi.GB10.gpus),
    "list": ok(smi.GB10.listed),
    "done": ok(""),
}
LAPTOP = {
    **SPARK,
    "kernel": ok("Linux 6.1.0 x86_64\n"),
    "cpu": ok("model name\t: AMD EPYC\n"),
    "smi": Reply(code=1, text=""),
    "driver": Reply(code=1, text=""),
}


def seen(tmp_path: Path, what: Smi) -> Hardware:
    return hardware(here(env=smi.install(tmp_path / "bin", what)))


def test_a_gb10_is_one_though_it_tells_no_memory_and_no_power_limit() -> None:
    machine = read_hardware(SPARK)
    (gpu,) = machine.gpus
    assert (gpu.name, gpu.capability, gpu.driver, gpu.memory, gpu.power_limit) == (
        *("NVIDIA GB10", "12.1", "580.159.03"),
        *(None, None),
    )
    assert machine.kind is GpuClass.GB10_OR_WORKSTATION_BLACKWELL
    assert machine.identity() == ("linux/arm64; Cortex-A725+Cortex-X925; driver 580.159.03; 1x NVIDIA GB10 sm_121")
    assert machine.memory == 127601388 * 1024
    assert machine.conclusions[0].startswith("this is the GPU that sm_121 builds are for")


@pytest.mark.parametrize(
    ("what", "kind", "identity"),
    [
        (smi.H200, GpuClass.OTHER_DATACENTER, "driver 580.159.04; 1x NVIDIA H200 sm_90"),
        (smi.GB10, GpuClass.GB10_OR_WORKSTATION_BLACKWELL, "driver 580.159.03; 1x NVIDIA GB10 sm_121"),
        (smi.RTX_4090, GpuClass.OTHER, "driver 550.54.15; 1x NVIDIA GeForce RTX 4090 sm_89"),
        (smi.OLD_DRIVER, GpuClass.OTHER_DATACENTER, "driver 418.87.00; 1x Tesla V100-SXM2-16GB sm unknown"),
        (smi.MIG, GpuClass.OTHER_DATACENTER, "driver 535.104.05; 1x NVIDIA H100 80GB HBM3 sm_90 MIG 1g.10gb+3g.40gb"),
        (
            Smi(gpus=smi.H200.gpus + smi.H200.gpus.replace("0,", "1,", 1)),
            GpuClass.OTHER_DATACENTER,
            "driver 580.159.04; 2x NVIDIA H200 sm_90",
        ),
        (
            Smi(gpus=smi.H200.gpus + smi.RTX_4090.gpus.replace("0,", "1,", 1)),
            GpuClass.MIXED,
            "driver 580.159.04; 1x NVIDIA GeForce RTX 4090 sm_89; 1x NVIDIA H200 sm_90",
        ),
    ],
)
def test_a_machine_is_named_by_what_nvidia_smi_prints(tmp_path: Path, what: Smi, kind: GpuClass, identity: str) -> None:
    machine = seen(tmp_path, what)
    assert machine.gpu_problem == ""
    assert machine.kind is kind
    assert machine.identity().split("; ", 2)[2] == identity


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (smi.NO_DRIVER, 9, "couldn't communicate with the NVIDIA driver"),
        (smi.MISMATCH, 18, "the driver was updated while it was loaded; restart the machine"),
        (smi.NO_DEVICES, 6, "nvidia-smi finds no devices, although a driver is loaded"),
        ("Failed to initialize NVML: Unknown Error\n", 255, "fails with exit code 255: Failed to initialize NVML"),
        ("", 137, "nvidia-smi does not answer within 20 s"),
        ("", 1, "nvidia-smi fails with exit code 1"),
        ("half an answer\n", 0, "nvidia-smi fails with exit code 0: half an answer"),
        ("[Unknown Error], [Unknown Error], a, b, c, d, e, f\n", 0, "unexpected output of nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_answer_is_not_the_absence_of_a_gpu(
    tmp_path: Path, text: str, code: int, words: str
) -> None:
    machine = seen(tmp_path, smi.failing(text, code))
    assert machine.gpus == ()
    assert words in machine.gpu_problem
    assert machine.kind is GpuClass.UNKNOWN
    assert machine.identity().endswith("; gpu unreadable")
    assert machine.conclusions == ("this GPU is unknown: its results prove nothing about a GB10",)


def test_a_machine_without_driver_and_nvidia_smi_has_no_gpu() -> None:
    machine = read_hardware(LAPTOP)
    assert (machine.kind, machine.gpu_problem) == (GpuClass.NONE, "")
    assert machine.identity() == "linux/amd64; AMD EPYC; no gpu"
    assert machine.conclusions[0].startswith("CPU only: this shows that programs")


def test_a_loaded_driver_without_nvidia_smi_is_a_gpu_that_cannot_be_read() -> None:
    machine = read_hardware({**LAPTOP, "driver": ok("NVRM version: NVIDIA UNIX Open Kernel Module  580.159.04\n")})
    assert machine.gpu_problem == "NVIDIA's driver is loaded, but nvidia-smi was not found"


def test_parts_that_are_missing_leave_unknowns_and_raise_nothing() -> None:
    machine = read_hardware({"done": ok("")})
    assert machine.identity() == "unknown/unknown; unknown cpu; no gpu"
    assert (machine.cpus, machine.memory, machine.boot) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "capability", "kind"),
    [
        ("NVIDIA GB10", "12.1", "gb10_or_workstation_blackwell"),
        ("NVIDIA GB10", None, "gb10_or_workstation_blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0", "gb10_or_workstation_blackwell"),
        ("NVIDIA GeForce RTX 5090", None, "gb10_or_workstation_blackwell"),
        ("NVIDIA B200", "10.0", "datacenter_blackwell"),
        ("NVIDIA GB300", "10.3", "datacenter_blackwell"),
        ("NVIDIA GB200", None, "datacenter_blackwell"),
        ("NVIDIA H100 80GB HBM3", "9.0", "other_datacenter"),
        ("NVIDIA A100-SXM4-80GB", "8.0", "other_datacenter"),
        ("NVIDIA A10G", "8.6", "other_datacenter"),
        ("NVIDIA L40S", "8.9", "other_datacenter"),
        ("Tesla T4", "7.5", "other_datacenter"),
        ("NVIDIA GeForce RTX 3090", "8.6", "other"),
        ("NVIDIA RTX A6000", "8.6", "other"),
        ("NVIDIA TITAN V", "7.0", "other"),
        ("NVIDIA Thor", "11.0", "other"),
        ("Rubin something", None, "unknown"),
    ],
)
def test_gpus_are_classed_by_capability_and_name(name: str, capability: str | None, kind: str) -> None:
    assert classify(name, capability).value == kind


def test_every_class_says_what_may_be_concluded() -> None:
    said = {kind: conclusions(kind, frozenset({"9.9"})) for kind in GpuClass}
    assert all(said.values())
    for kind in (GpuClass.OTHER_DATACENTER, GpuClass.OTHER, GpuClass.DATACENTER_BLACKWELL):
        assert "only for compute capability 12.x" in said[kind][0]
    workstation = conclusions(GpuClass.GB10_OR_WORKSTATION_BLACKWELL, frozenset({"12.0"}))
    assert "built for sm_120" in workstation[0]
    assert of_all([]) is GpuClass.NONE


def test_identities_differ_where_results_may(tmp_path: Path) -> None:
    other_driver = {**SPARK, "gpus": ok(smi.GB10.gpus.replace("580.159.03", "590.44"))}
    other_name = {**SPARK, "gpus": ok(smi.GB10.gpus.replace("GB10", "GB11"))}
    other_capability = {**SPARK, "gpus": ok(smi.GB10.gpus.replace("12.1", "12.2"))}
    cut = {**SPARK, "gpus": ok(smi.GB10.gpus.replace("[N/A], NVIDIA", "Enabled, NVIDIA"))}
    unread = {**SPARK, "gpus": Reply(code=9, text=smi.NO_DRIVER)}
    variants = (SPARK, LAPTOP, other_driver, other_name, other_capability, cut, unread)
    assert len({read_hardware(parts).identity() for parts in variants}) == len(variants)
    restarted = {**SPARK, "boot": ok("another\n"), "host": ok("renamed\n"), "memory": ok("MemTotal: 1 kB\n")}
    assert read_hardware(restarted).identity() == read_hardware(SPARK).identity()


def test_the_document_and_the_lines_hold_it_all(tmp_path: Path) -> None:
    machine = seen(tmp_path, smi.MIG)
    document = msgspec.to_builtins(hardware_entry(machine))
    assert document["gpus"][0]["mig"] == ("1g.10gb", "3g.40gb")
    assert document["gpus"][0]["memory"] == 81559 << 20
    assert (document["class"], document["identity"]) == ("other_datacenter", machine.identity())
    lines = list(hardware_lines(read_hardware(SPARK)))
    assert "GPU 0: NVIDIA GB10" in lines
    assert "hardware_class=gb10_or_workstation_blackwell" in lines
    assert {"driver=580.159.03", "compute_cap=12.1", "gpu_memory=no separate memory reported"} <= set(lines)


def test_rows_keep_a_comma_in_a_name_and_refuse_what_is_none() -> None:
    assert rows(ok("1, 2, a, b\n"), 2) == [["1", "2", "a, b"]]
    assert rows(ok("WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n\n"), 2) == []
    assert rows(ok("1\n"), 2) is None
    assert rows(Reply(code=2, text="1, 2, 3\n"), 2) is None
    assert rows(None, 2) is None
    assert [number(text) for text in ("700.00", "3 W", "[N/A]", "[Not Supported]", "ERR!", "")] == [700.0, 3.0] + [
        None
    ] * 4


def test_an_answer_that_is_cut_off_is_no_answer() -> None:
    with pytest.raises(MissingError, match=r"the machine's answer is incomplete \(exit code 1\): welcome"):
        probe(lambda argv: (1, f"welcome\n{argv[4]} begin gpus\n0, GPU"))


def test_what_a_login_prints_around_the_parts_is_dropped() -> None:
    text = "motd\n\n@@1 begin a\ntwo\nlines\n\n@@1 end a 3\n\n@@1 begin b\n\n@@1 end b 0\n\n@@1 begin c\nhalf"
    assert read_parts(text, "@@1") == {"a": Reply(code=3, text="two\nlines\n"), "b": ok("")}


def test_nvidia_smi_that_hangs_costs_its_limit_and_no_more(tmp_path: Path) -> None:
    env = smi.program(tmp_path / "bin", "nvidia-smi", f"echo asked >>{tmp_path}/log; sleep 60")
    hasty = SCRIPT.replace("timeout -s KILL 20", "timeout -s KILL 0.2")
    began = time.monotonic()
    machine = read_hardware(probe(lambda argv: here(env=env)([*argv[:2], hasty, *argv[3:]])))
    assert time.monotonic() - began < 20
    assert machine.gpu_problem == "nvidia-smi does not answer within 20 s: is a GPU hanging?"
    assert (tmp_path / "log").read_text() == "asked\n"


def test_this_machine_answers_in_a_moment() -> None:
    machine = hardware(here())
    assert machine.platform.startswith(("linux/", "darwin/"))
    assert machine.cpus
