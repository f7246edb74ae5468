"""Steps as a warehouse has them: submitted as text, realised, and trained on as derived ids."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reader.read.conftest import Told
from tests.reader.realise.conftest import CHATML

from stepwell.reader import ChatTemplate, Realiser, Sequences, TiktokenEncoder, merge, realised_counts
from stepwell.sdk.records import Step

pytest.importorskip("jinja2")

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
ASK = {"role": "user", "content": "the question"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}


def test_a_conversation_with_tools(tmp_path: Path, tiktoken_encoder: TiktokenEncoder) -> None:
    (tmp_path / "spool").mkdir()
    told = Told(tmp_path)
    result = {"role": "tool", "tool_call_id": "c1", "content": "a cat"}
    for turn, (messages, response, status) in enumerate(
        [([ASK], CALLED, "ok"), ([ASK, CALLED, result], "A cat.", "ok"), ([ASK], "A c", "truncated")]
    ):
        fields = {"step_id": f"t.{turn}", "messages": messages, "response": response, "tools": TOOLS, "status": status}
        told._tell("step", Step.model_validate({"trajectory_id": "t", **fields}))
    warehouse = told.commit()
    told.close()
    columns = "step_id, messages, tools, response, status, untrainable_reason"
    found = warehouse.query(f"SELECT {columns} FROM steps WHERE response_ids IS NULL ORDER BY step_id")
    table = Realiser(tiktoken_encoder, ChatTemplate(CHATML)).realise(found)
    assert table["step_id"].to_pylist() == ["t.0", "t.1", "t.2"]
    assert realised_counts(table)["realised"] == 2
    first, second, refused = table.to_pylist()
    assert "truncated" in refused["reason"]
    whole = first["prompt_ids"] + first["response_ids"]
    assert second["prompt_ids"][: len(whole)] == whole
    assert second["response_ids"] == tiktoken_encoder.encode("A cat.<|im_end|>").ids.tolist()
    some = table.slice(0, 2)
    sequences = Sequences.from_arrow(some["prompt_ids"], some["response_ids"], loss_mask=some["mask"])
    assert merge(sequences).occurrences == len(first["response_ids"]) + len(second["response_ids"])
