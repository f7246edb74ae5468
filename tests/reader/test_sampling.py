"""Whether a request sampled from the model as it is."""

from __future__ import annotations

import pytest

from stepwell.reader._sampling import bending


@pytest.mark.parametrize(
    ("sampling", "bent"),
    [
        ("{}", None),
        ('{"temperature":1.0,"top_p":1,"top_k":-1,"min_p":0.0,"seed":3}', None),
        ('{"temperature":null,"top_k":0}', None),
        ('{"temperature":0.7}', "temperature=0.7"),
        ('{"top_p":0.9}', "top_p=0.9"),
        ('{"top_k":40}', "top_k=40"),
        ('{"min_p":0.1}', "min_p=0.1"),
        ('{"frequency_penalty":0,"presence_penalty":0.0,"repetition_penalty":1.0,"logit_bias":{}}', None),
        ('{"frequency_penalty":0.5}', "frequency_penalty=0.5"),
        ('{"presence_penalty":-1}', "presence_penalty=-1"),
        ('{"repetition_penalty":1.1}', "repetition_penalty=1.1"),
        ('{"logit_bias":{"7":-100}}', "logit_bias={'7': -100}"),
    ],
)
def test_what_bends_the_distribution_is_named(sampling: str, bent: str | None) -> None:
    assert bending(sampling) == bent
