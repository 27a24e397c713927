"""Tiny models that real llama.cpp loads and runs: random weights, a tokenizer of bytes, four architectures.

The same arguments give the same bytes. The weights of a seed do not depend on their type, so an f16 model is the f32
model rounded. Random weights suit tests of plumbing and of failures, but not of thresholds.

The loader's requirements for each architecture (keys, tensors and their shapes) are from llama.cpp's
`src/llama-arch.cpp` and `src/models/`, as of June 2026. Needs the package `gguf`, which brings numpy: `need_gguf()`
skips without it.

    python -m tests.support.tiny_gguf ARCHITECTURE FILE [--seed N] [--weights f32|f16] [--chat]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

Architecture = Literal["llama", "qwen3moe", "qwen35", "qwen35moe"]
Weights = Literal["f32", "f16"]
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)

LAYERS = 4  # of a hybrid model, the last of each four is attention and the others are recurrent
CONTEXT = 4096
WIDTH = 128
HEADS, KV_HEADS, HEAD = 4, 2, 64
HIDDEN = 256
EXPERTS, EXPERTS_USED, EXPERT_HIDDEN = 8, 2, 64
# of a recurrent layer: heads of values and of keys, the size of each, and the length of the convolution
VALUE_HEADS, KEY_HEADS, STATE, CONVOLUTION = 4, 2, 64, 4

# a token a byte, then these; the merge that the loader insists on is never used by a text without " t"
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 288

_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor that an architecture has. `shape` as numpy has it: rows first, the length of a row last. `fill` is
    "random" (standard deviation `scale / sqrt(length of a row)`), "ones", or "decay" (what a recurrent state loses a
    token, below zero). `exact` tensors are f32 in every model: the loader wants them so."""

    name: str
    shape: tuple[int, ...]
    fill: Literal["random", "ones", "decay"] = "random"
    scale: float = 1.0
    exact: bool = False


def need_gguf() -> None:
    """Skip if models cannot be written."""
    if importlib.util.find_spec("gguf") is None:
        pytest.skip("no gguf package")


def write_model(
    path: Path,
    architecture: Architecture,
    *,
    seed: int = 1,
    weights: Weights = "f16",
    chat: bool = False,
    layers: int = LAYERS,
) -> Path:
    """Write a model file, of 1.5 to 6 MB if it has four layers; gives its path. `chat`: with a chat template, which
    switches llama-completion to its conversation mode."""
    gguf: Any = importlib.import_module("gguf")
    numpy: Any = importlib.import_module("numpy")
    writer = gguf.GGUFWriter(str(path), architecture)
    _describe(writer, architecture, layers)
    add_tokenizer(writer, gguf.TokenType, chat)
    generator = numpy.random.default_rng(seed)
    for tensor in tensors(architecture, layers):
        content = _content(numpy, generator, tensor)
        if tensor.name == "output.weight":  # generated text stays printable ASCII, one byte of UTF-8 for each token
            content[[not 32 <= token < 127 for token in range(VOCABULARY)]] = 0
        half = weights == "f16" and not tensor.exact
        writer.add_tensor(tensor.name, content.astype(numpy.float16 if half else numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors(architecture: Architecture, layers: int = LAYERS) -> Iterator[Tensor]:
    """Yield the tensors of a model of the architecture, in the order of the file."""
    yield Tensor(name="token_embd.weight", shape=(VOCABULARY, WIDTH), scale=WIDTH**0.5)
    yield _norm("output_norm", WIDTH)
    yield Tensor(name="output.weight", shape=(VOCABULARY, WIDTH), scale=5.0)
    hybrid = _is_hybrid(architecture)
    for number in range(layers):
        block = f"blk.{number}"
        yield _norm(f"{block}.attn_norm", WIDTH)
        if hybrid and (number + 1) % LAYERS:
            yield from _recurrent(block)
        else:
            yield from _attention(block, gated=hybrid, normed=architecture != "llama")
        yield _norm(f"{block}.{'post_attention_norm' if hybrid else 'ffn_norm'}", WIDTH)
        if architecture.endswith("moe"):
            yield from _experts(block, shared=hybrid)
        else:
            yield from _feed_forward(block, "", HIDDEN)


def _norm(name: str, width: int) -> Tensor:
    return Tensor(name=f"{name}.weight", shape=(width,), fill="ones", exact=True)


def _attention(block: str, *, gated: bool, normed: bool) -> Iterator[Tensor]:
    """Yield an attention layer. With `gated` the query has twice as many values, and the second half gates the heads'
    output. With `normed` queries and keys are normalized."""
    yield Tensor(name=f"{block}.attn_q.weight", shape=(HEADS * HEAD * (2 if gated else 1), WIDTH), scale=2.0)
    yield Tensor(name=f"{block}.attn_k.weight", shape=(KV_HEADS * HEAD, WIDTH), scale=2.0)
    yield Tensor(name=f"{block}.attn_v.weight", shape=(KV_HEADS * HEAD, WIDTH))
    yield Tensor(name=f"{block}.attn_output.weight", shape=(WIDTH, HEADS * HEAD), scale=4.0)
    if normed:
        yield _norm(f"{block}.attn_q_norm", HEAD)
        yield _norm(f"{block}.attn_k_norm", HEAD)


def _recurrent(block: str) -> Iterator[Tensor]:
    """Yield a gated delta-rule layer."""
    values = VALUE_HEADS * STATE
    mixed = values + 2 * KEY_HEADS * STATE
    yield Tensor(name=f"{block}.attn_qkv.weight", shape=(mixed, WIDTH))
    yield Tensor(name=f"{block}.attn_gate.weight", shape=(values, WIDTH))
    yield Tensor(name=f"{block}.ssm_conv1d.weight", shape=(mixed, CONVOLUTION), exact=True)
    yield Tensor(name=f"{block}.ssm_dt.bias", shape=(VALUE_HEADS,), exact=True)
    yield Tensor(name=f"{block}.ssm_a", shape=(VALUE_HEADS,), fill="decay", exact=True)
    yield _norm(f"{block}.ssm_norm", STATE)
    yield Tensor(name=f"{block}.ssm_beta.weight", shape=(VALUE_HEADS, WIDTH))
    yield Tensor(name=f"{block}.ssm_alpha.weight", shape=(VALUE_HEADS, WIDTH))
    yield Tensor(name=f"{block}.ssm_out.weight", shape=(WIDTH, values), scale=2.0)


def _feed_forward(block: str, suffix: str, hidden: int) -> Iterator[Tensor]:
    yield Tensor(name=f"{block}.ffn_gate{suffix}.weight", shape=(hidden, WIDTH), scale=2.0)
    yield Tensor(name=f"{block}.ffn_up{suffix}.weight", shape=(hidden, WIDTH))
    yield Tensor(name=f"{block}.ffn_down{suffix}.weight", shape=(WIDTH, hidden), scale=2.0)


def _experts(block: str, *, shared: bool) -> Iterator[Tensor]:
    """Yield a router and its experts; with `shared` also one that every token uses, with its own gate."""
    yield Tensor(name=f"{block}.ffn_gate_inp.weight", shape=(EXPERTS, WIDTH), exact=True)
    yield Tensor(name=f"{block}.ffn_gate_exps.weight", shape=(EXPERTS, EXPERT_HIDDEN, WIDTH), scale=2.0)
    yield Tensor(name=f"{block}.ffn_up_exps.weight", shape=(EXPERTS, EXPERT_HIDDEN, WIDTH))
    yield Tensor(name=f"{block}.ffn_down_exps.weight", shape=(EXPERTS, WIDTH, EXPERT_HIDDEN), scale=2.0)
    if shared:
        yield Tensor(name=f"{block}.ffn_gate_inp_shexp.weight", shape=(WIDTH,), exact=True)
        yield from _feed_forward(block, "_shexp", EXPERT_HIDDEN)


def _content(numpy: Any, generator: Any, tensor: Tensor) -> Any:
    match tensor.fill:
        case "ones":
            return numpy.ones(tensor.shape)
        case "decay":
            return -numpy.exp(generator.uniform(-2, 1, tensor.shape))
        case "random":
            return generator.normal(0, tensor.scale * tensor.shape[-1] ** -0.5, tensor.shape)


def _is_hybrid(architecture: Architecture) -> bool:
    return architecture.startswith("qwen35")


def _describe(writer: Any, architecture: Architecture, layers: int) -> None:
    """Write the keys that describe the model."""
    writer.add_name(f"tiny {architecture}")
    writer.add_context_length(CONTEXT)
    writer.add_vocab_size(VOCABULARY)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    if architecture.endswith("moe"):
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(EXPERTS_USED)
        writer.add_expert_feed_forward_length(EXPERT_HIDDEN)
    if _is_hybrid(architecture):
        writer.add_rope_dimension_sections([8, 12, 12, 0])
        writer.add_uint32(f"{architecture}.full_attention_interval", LAYERS)
        writer.add_ssm_conv_kernel(CONVOLUTION)
        writer.add_ssm_state_size(STATE)
        writer.add_ssm_group_count(KEY_HEADS)
        writer.add_ssm_time_step_rank(VALUE_HEADS)
        writer.add_ssm_inner_size(STATE * VALUE_HEADS)
        if architecture.endswith("moe"):
            writer.add_expert_shared_feed_forward_length(EXPERT_HIDDEN)


def add_tokenizer(writer: Any, kinds: Any, chat: bool) -> None:
    """Add a tokenizer with GPT-2's bytes, one token each. The only merge is " t"."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]  # GPT-2 writes them as the characters from 256 on
    letter = {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}
    merged = letter[ord(" ")] + "t"
    words = [*(letter[byte] for byte in range(256)), *CONTROL, merged]
    types = [*[kinds.NORMAL] * 256, *[kinds.CONTROL] * len(CONTROL), kinds.NORMAL]
    unused = VOCABULARY - len(words)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*words, *(f"<|unused{number}|>" for number in range(unused))])
    writer.add_token_types([*types, *[kinds.UNUSED] * unused])
    writer.add_token_merges([f"{letter[ord(' ')]} t"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(258)
    writer.add_add_bos_token(False)
    if chat:
        writer.add_chat_template(_CHATML)


def main() -> None:
    """Write a model from the command line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("architecture", choices=ARCHITECTURES)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", choices=get_args(Weights), default="f16")
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--layers", type=int, default=LAYERS)
    given = parser.parse_args()
    about = {"seed": given.seed, "weights": given.weights, "chat": given.chat, "layers": given.layers}
    write_model(given.file, given.architecture, **about)


if __name__ == "__main__":
    main()
