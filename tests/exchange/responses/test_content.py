"""Content parts of Responses items, there and back."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from stepwell.exchange._responses.content import ASKED, SAID, block_of, content_of

URL = "data:image/png;base64," + base64.b64encode(b"pixels").decode()
HASH = "sha256:" + hashlib.sha256(b"pixels").hexdigest()
DATA = URL.partition(",")[2]


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ({"type": "input_image", "image_url": URL, "detail": "auto"}, "image"),
        ({"type": "input_image", "image_url": {"url": URL}}, "image"),
        ({"type": "computer_screenshot", "image_url": URL}, "image"),
        ({"type": "input_file", "filename": "a.pdf", "file_data": DATA}, "file"),
        ({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}, "audio"),
    ],
)
def test_media_are_named_by_their_bytes(block: dict[str, Any], kind: str) -> None:
    (part,) = content_of([block], ASKED)
    assert (part["type"], part["hash"]) == (kind, HASH)
    assert block_of(part, ASKED) == block


@pytest.mark.parametrize(
    "block",
    [
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_image", "image_url": "https://x/y.png"},
        {"type": "input_text", "text": "a"},
        {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation", "url": "u"}]},
        {"type": "output_text", "text": "a", "logprobs": [{"token": "a", "logprob": -0.1}]},
        {"type": "text", "text": "as chat has it"},
        {"type": "refusal", "refusal": "no"},
        {"type": "output_text", "text": 3},
        {"type": "of tomorrow", "text": "a"},
        {"no": "type"},
    ],
)
@pytest.mark.parametrize("usual", [ASKED, SAID])
def test_every_block_comes_back_as_it_was(block: dict[str, Any], usual: str) -> None:
    (part,) = content_of([block], usual)
    assert "hash" not in part
    assert block_of(part, usual) == block


def test_citations_and_logprobs_stay_with_their_text() -> None:
    cited = {"type": "output_text", "text": "a", "annotations": [{"url": "u"}], "logprobs": [{"logprob": -1}]}
    assert content_of([cited, {"type": "output_text", "text": "b", "annotations": [], "logprobs": []}], SAID) == [
        {"type": "text", "text": "a", "extra": {"annotations": [{"url": "u"}], "logprobs": [{"logprob": -1}]}},
        {"type": "text", "text": "b"},
    ]


def test_text_alone_is_one_part() -> None:
    assert content_of("a", ASKED) == [{"type": "text", "text": "a"}] == content_of(["a"], ASKED)
    assert content_of("", ASKED) == content_of(None, ASKED) == []


@pytest.mark.parametrize("content", [3, {}, [3], [None]])
def test_what_is_no_content_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match="content"):
        content_of(content, ASKED)
