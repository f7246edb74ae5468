"""What in a request bends the distribution that is sampled from away from the model's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
}
"""With these a model is sampled from as it is."""


def bending(sampling: str) -> str | None:
    """What in a request (JSON) bent the distribution away from the model's own, as in `temperature=0.7`."""
    asked = orjson.loads(sampling)
    for name, neutral in _NEUTRAL.items():
        given = asked.get(name)
        if given is not None and given not in neutral:
            return f"{name}={given}"
    return None
