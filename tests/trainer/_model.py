"""A language model of the kind in use, small: RMSNorm, rotary positions, grouped queries, SwiGLU. Functions over named tensors.

It computes on one flat axis of T tokens. What a token sees is up to `attend`, where it stands is up to `positions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from stepwell.reader import VarlenInputs

Tensor = Any
Parameters = dict[str, Tensor]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""q [T, heads, D], k and v [T, kv_heads, D] → [T, heads, D]."""


@dataclass(frozen=True)
class Shape:
    vocabulary: int = 48
    width: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    inner: int = 48

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def new_parameters(shape: Shape, dtype: Any, seed: int = 0) -> Parameters:
    """Leaves that require gradients; the larger the scale, the more a token's result depends on the others."""
    random = torch.Generator().manual_seed(seed)
    kv, width = shape.kv_heads * shape.head_width, shape.width
    sizes: dict[str, tuple[int, ...]] = {
        "embed": (shape.vocabulary, width),
        "head": (shape.vocabulary, width),
        "norm": (width,),
    }
    for layer in range(shape.layers):
        matrices: dict[str, tuple[int, ...]] = {
            "q": (width, width),
            "k": (kv, width),
            "v": (kv, width),
            "o": (width, width),
        }
        matrices |= {"gate": (shape.inner, width), "up": (shape.inner, width), "down": (width, shape.inner)}
        matrices |= {"norm_attention": (width,), "norm_inner": (width,)}
        sizes |= {f"{layer}.{name}": size for name, size in matrices.items()}
    found = {}
    for name, size in sizes.items():
        values = torch.randn(size, generator=random, dtype=torch.float64) * (1.5 / size[-1] ** 0.5)
        found[name] = (values if len(size) == 2 else values.abs() + 0.5).to(dtype).requires_grad_()
    return found


def hidden(parameters: Parameters, shape: Shape, embedded: Tensor, positions: Tensor, attend: Attend) -> Tensor:
    """[T, width] after the last norm, of [T, width] embeddings at [T] positions."""
    x = embedded
    for layer in range(shape.layers):
        here = {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith(f"{layer}.")}
        h = _norm(x, here["norm_attention"])
        split = (-1, shape.head_width)
        q = _rotated((h @ here["q"].T).unflatten(-1, split), positions)
        k = _rotated((h @ here["k"].T).unflatten(-1, split), positions)
        v = (h @ here["v"].T).unflatten(-1, split)
        x = x + attend(q, k, v).flatten(1) @ here["o"].T
        h = _norm(x, here["norm_inner"])
        x = x + (functional.silu(h @ here["gate"].T) * (h @ here["up"].T)) @ here["down"].T
    return _norm(x, parameters["norm"])


def logprobs(parameters: Parameters, states: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """[n] logprob of each label after its state, and [n] the entropy there."""
    every = functional.log_softmax(states @ parameters["head"].T, -1)
    return every.gather(-1, labels[:, None])[:, 0], -(every.exp() * every).sum(-1)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One sequence: each token sees those before it."""
    return _sdpa(q, k, v, is_causal=True)


def masked(mask: Tensor) -> Attend:
    """Visibility as bool [T, T]."""
    return lambda q, k, v: _sdpa(q, k, v, attn_mask=mask)


def several(lengths: Sequence[int]) -> Attend:
    """Sequences one after the other, each by itself: what trainers do without merging."""
    sizes = list(lengths)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = zip(q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
        return torch.cat([causal(*part) for part in parts])

    return attend


def chains(inputs: VarlenInputs, block: int = 512) -> Attend:
    """`flash_attn_varlen_func(q, k[kv_index], v[kv_index], …, causal=True)` from parts that a processor has.

    The causal mask is aligned to the bottom right. Queries go block by block, so that no mask is larger than a block by its keys.
    """
    index = torch.from_numpy(inputs.kv_index).long()
    borders_q, borders_k = inputs.cu_seqlens_q.tolist(), inputs.cu_seqlens_k.tolist()

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = []
        for chain in range(len(borders_q) - 1):
            keys = index[borders_k[chain] : borders_k[chain + 1]]
            own_q, own_k, own_v = q[borders_q[chain] : borders_q[chain + 1]], k[keys], v[keys]
            found += _bottom_right(own_q, own_k, own_v, block)
        return torch.cat(found)

    return attend


def _bottom_right(q: Tensor, k: Tensor, v: Tensor, block: int) -> list[Tensor]:
    before = len(k) - len(q)
    if not before:
        return [causal(q, k, v)]
    found = []
    for start in range(0, len(q), block):
        stop = min(start + block, len(q))
        mask = torch.ones(stop - start, before + stop, dtype=torch.bool).tril(before + start)
        found.append(_sdpa(q[start:stop], k[: before + stop], v[: before + stop], attn_mask=mask))
    return found


def _sdpa(q: Tensor, k: Tensor, v: Tensor, **how: Any) -> Tensor:
    lifted = (each.transpose(0, 1)[None] for each in (q, k, v))
    return functional.scaled_dot_product_attention(*lifted, enable_gqa=True, **how)[0].transpose(0, 1)


def _norm(x: Tensor, scale: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale


def _rotated(x: Tensor, positions: Tensor) -> Tensor:
    width = x.shape[-1]
    frequencies = 100.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = positions.double()[:, None] * frequencies
    cos, sin = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None]
    first, second = x[..., : width // 2], x[..., width // 2 :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
