"""CUDA architectures as people name them."""

from __future__ import annotations

import pytest

from patchstack.builds.inputs.arch import ARCHITECTURES, parse_arch, toolkit_complaint
from patchstack.errors import UsageError


@pytest.mark.parametrize("name", ["121", "12.1", "sm_121", "sm121", "121a", "121a-real", "compute_121", " SM_121 "])
def test_every_name_of_gb10_means_machine_code_with_fp4(name: str) -> None:
    assert parse_arch(name).cmake == "121a-real"
    assert parse_arch(name).real == "121a"


@pytest.mark.parametrize(
    ("name", "words", "hint"),
    [
        ("122", "there is no CUDA architecture 122", "perhaps you meant"),
        ("999", "there is no CUDA architecture 999", "supported: 61"),
        ("spark", "there is no CUDA architecture spark", "supported: 61"),
        ("", "there is no CUDA architecture ", "supported: 61"),
        ("121-virtual", "121-virtual is PTX, not machine code", "use --arch 121 for 121a-real"),
        ("121f", "121f is not patchstack's value for sm_121", "use --arch 121 for 121a-real"),
    ],
)
def test_what_is_no_architecture_is_refused_with_the_known_ones(name: str, words: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_arch(name)
    assert error.value.message == words
    assert hint in (error.value.hint or "")


@pytest.mark.parametrize(
    ("arch", "cuda", "complaint"),
    [
        ("121", (12, 8), "sm_121 needs CUDA 12.9 or newer; the toolkit is 12.8"),
        ("121", (12, 9), None),
        ("121", (13, 0), None),
        ("120", (12, 6), "sm_120 needs CUDA 12.8 or newer; the toolkit is 12.6"),
        ("90", (11, 7), "sm_90 needs CUDA 11.8 or newer; the toolkit is 11.7"),
        ("70", (12, 9), None),
        ("70", (13, 0), "CUDA 12 was the last to support sm_70; the toolkit is 13.0"),
    ],
)
def test_a_toolkit_too_old_or_too_new_is_told_which_cuda_it_takes(
    arch: str, cuda: tuple[int, int], complaint: str | None
) -> None:
    assert toolkit_complaint(parse_arch(arch), cuda) == complaint


def test_every_architecture_is_machine_code_and_found_by_its_number() -> None:
    for architecture in ARCHITECTURES:
        assert architecture.cmake.endswith("-real")
        assert parse_arch(str(architecture.number)) == architecture
        assert parse_arch(architecture.cmake) == architecture
