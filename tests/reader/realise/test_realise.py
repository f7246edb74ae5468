"""Steps of text as ids: the prompt, the answer, what of it counts, and why some have none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.reader.realise.conftest import CHATML, UNMARKED, said, steps

from stepwell.errors import InvalidRecord
from stepwell.exchange._generation import Tokens
from stepwell.reader import Sequences, merge, prefix_order
from stepwell.reader._realise.encode import Encoder, TiktokenEncoder
from stepwell.reader._realise.media import keyed_by_media
from stepwell.reader._realise.realise import Realiser, realised_counts
from stepwell.reader._realise.template import ChatTemplate

pytest.importorskip("jinja2")

ASK = said("user", "the question")
STEP = {"messages": [said("system", "be brief"), ASK], "response": said("assistant", "he said")}
PROMPT = "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nthe question<|im_end|>\n<|im_start|>assistant\n"
IMAGE = {"type": "image", "hash": "sha256:cat"}
LEFT_OUT = UNMARKED.replace("message.reasoning_content and loop.last", "false")


def only(realiser: Realiser, *rows: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = realiser.realise(steps(*rows)).to_pylist()[-1]
    return found


def trained(row: dict[str, Any]) -> list[int]:
    return [one for one, yes in zip(row["response_ids"], row["mask"], strict=True) if yes]


def test_prompt_and_answer_are_the_ids_of_their_texts(encoder: Encoder) -> None:
    realiser = Realiser(encoder, ChatTemplate(CHATML))
    row = only(realiser, STEP)
    assert row["prompt_ids"] == encoder.encode(PROMPT).ids.tolist()
    assert row["response_ids"] == encoder.encode("he said<|im_end|>").ids.tolist()
    assert all(row["mask"])
    assert (row["reason"], row["notes"], row["media"]) == (None, [], [])
    assert (row["source"], row["fingerprint"]) == ("tokenizer:ours", realiser.fingerprint)


def test_without_marks_the_answer_ends_with_the_token_that_ends_it(encoder: Encoder) -> None:
    ended = only(Realiser(encoder, ChatTemplate(UNMARKED, eos_token="<|im_end|>")), STEP)
    assert trained(ended) == encoder.encode("he said<|im_end|>").ids.tolist()
    unknown = only(Realiser(encoder, ChatTemplate(UNMARKED)), STEP)
    assert trained(unknown) == encoder.encode("he said<|im_end|>\n").ids.tolist()


def test_marks_of_earlier_turns_train_nothing_and_turns_extend_each_other(encoder: Encoder) -> None:
    following = [*STEP["messages"], STEP["response"], said("user", "and?")]
    table = Realiser(encoder, ChatTemplate(CHATML)).realise(
        steps(STEP, {"messages": following, "response": said("assistant", "é")})
    )
    first, second = table.to_pylist()
    whole = first["prompt_ids"] + first["response_ids"]
    assert second["prompt_ids"][: len(whole)] == whole
    sequences = Sequences.from_arrow(table["prompt_ids"], table["response_ids"], loss_mask=table["mask"])
    batch = merge(sequences)
    assert batch.occurrences == len(trained(first)) + len(trained(second))
    assert len(batch.input_ids) == len(second["prompt_ids"]) + len(second["response_ids"])


def test_a_token_across_the_edge_between_prompt_and_answer_is_noted(encoder: Encoder) -> None:
    row = only(Realiser(encoder, ChatTemplate(CHATML)), {**STEP, "response": said("assistant", "\nhe")})
    assert row["prompt_ids"] == encoder.encode(PROMPT).ids.tolist()
    assert trained(row) == encoder.encode("\nhe<|im_end|>").ids.tolist()
    assert row["notes"] == ["prompt and response were encoded apart"]


def test_a_token_across_the_edge_of_a_mark_does_not_train_and_is_noted(tiktoken_encoder: TiktokenEncoder) -> None:
    source = (
        "{% for m in messages %}|{% if m.role == 'assistant' %}t{% generation %}{{ m.content }}{% endgeneration %}he"
    )
    source += "{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}|{% endif %}"
    row = only(Realiser(tiktoken_encoder, ChatTemplate(source)), {**STEP, "response": said("assistant", "he it t")})
    the, *rest = tiktoken_encoder.encode("the it the").ids.tolist()
    assert row["prompt_ids"][-1] == the
    assert trained(row) == row["response_ids"] == rest[:-2]  # the last `t` is in a token with an `h`
    assert row["notes"] == ["a token that is generated in part does not train"]


def test_a_gap_in_what_is_generated_is_masked(tiktoken_encoder: TiktokenEncoder) -> None:
    source = CHATML.replace("{{- message.content }}", "{{- message.content }}{%- endgeneration %} !{%- generation %}")
    row = only(Realiser(tiktoken_encoder, ChatTemplate(source)), STEP)
    whole = tiktoken_encoder.encode("he said !<|im_end|>")
    assert row["response_ids"] == whole.ids.tolist()
    assert row["mask"] == ((whole.end <= len("he said")) | (whole.begin >= len("he said !"))).tolist()


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({**STEP, "status": "truncated"}, r"the answer is not whole \(truncated\)"),
        ({**STEP, "status": "error"}, "not whole"),
        ({**STEP, "untrainable_reason": "the prompt is incomplete: x"}, "not trainable: the prompt is incomplete: x"),
        ({"messages": None, "response": said("assistant", "a")}, "no messages, or no answer"),
        ({"messages": [ASK]}, "no messages, or no answer"),
        ({**STEP, "messages": [said("user", IMAGE)]}, "kind image, for which there is no placeholder"),
        ({**STEP, "response": said("assistant")}, "the answer is empty"),
        ({**STEP, "tools": [{"type": "web_search"}]}, "a tool that is no function"),
    ],
)
def test_a_step_that_cannot_be_realised_says_why(tiktoken_encoder: TiktokenEncoder, step: Any, why: str) -> None:
    table = Realiser(tiktoken_encoder, ChatTemplate(CHATML)).realise(steps(step, STEP))
    refused, fine = table.to_pylist()
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(refused.pop("reason"))
    assert refused.pop("step_id") == "s0" and set(refused.values()) == {None}
    assert fine["reason"] is None and fine["prompt_ids"]
    assert sorted(realised_counts(table).values()) == [1, 1]


def test_what_the_template_leaves_out_is_refused_or_counted(tiktoken_encoder: TiktokenEncoder) -> None:
    step = {**STEP, "response": said("assistant", {"type": "reasoning", "text": "hm"}, "he said")}
    refused = only(Realiser(tiktoken_encoder, ChatTemplate(LEFT_OUT)), step)
    assert refused["reason"] == "the chat template leaves out: the answer's reasoning"
    table = Realiser(tiktoken_encoder, ChatTemplate(LEFT_OUT), unrendered="count").realise(steps(step))
    assert realised_counts(table) == {"realised": 1, "left out: the answer's reasoning": 1}
    with pytest.raises(InvalidRecord, match="'drop' is not one of refuse, count"):
        Realiser(tiktoken_encoder, ChatTemplate(CHATML), unrendered="drop")  # type: ignore[arg-type]


def test_reasoning_of_earlier_turns_is_only_counted(tiktoken_encoder: TiktokenEncoder) -> None:
    earlier = said("assistant", {"type": "reasoning", "text": "hm"}, "he said")
    row = only(Realiser(tiktoken_encoder, ChatTemplate(CHATML)), {**STEP, "messages": [ASK, earlier, ASK]})
    assert (row["reason"], row["notes"]) == (None, ["left out: reasoning of earlier turns"])


def test_a_template_whose_prompt_is_no_beginning_is_refused(tiktoken_encoder: TiktokenEncoder) -> None:
    for source in (CHATML.replace("assistant\\n' }}", "assistant\\n<think>' }}"), "{{ messages | length }}"):
        realiser = Realiser(tiktoken_encoder, ChatTemplate(source), unrendered="count")
        assert (
            only(realiser, STEP)["reason"]
            == "the rendered prompt is not what the conversation with the answer begins with"
        )


def test_an_answer_without_a_mark_is_refused(tiktoken_encoder: TiktokenEncoder) -> None:
    source = CHATML.replace(
        "{%- generation %}", "{%- if not loop.last %}{%- generation %}x{%- endgeneration %}{%- endif %}"
    )
    realiser = Realiser(
        tiktoken_encoder, ChatTemplate(source.replace("{%- endgeneration %}\n    {%- elif", "{%- elif"))
    )
    assert only(realiser, STEP)["reason"] == "nothing of the answer is generated, by the chat template's marks"


def test_ids_are_refused_for_rl_losses_unless_the_caller_says_so(tiktoken_encoder: TiktokenEncoder) -> None:
    realiser = Realiser(tiktoken_encoder, ChatTemplate(CHATML))
    with pytest.raises(InvalidRecord, match="were not sampled") as refused:
        realiser.realise(steps(STEP), loss="rl")
    assert refused.value.field == "derived"
    allowed = realiser.realise(steps(STEP), loss="rl", derived="allow")
    assert allowed.equals(realiser.realise(steps(STEP), loss="dpo")) and allowed["source"].to_pylist() == [
        "tokenizer:ours"
    ]
    with pytest.raises(InvalidRecord, match="'ppo' is not one of"):
        realiser.realise(steps(STEP), loss="ppo")  # type: ignore[arg-type]


def test_fingerprints_are_of_tokenizer_and_template(tiktoken_encoder: TiktokenEncoder) -> None:
    more = TiktokenEncoder(tiktoken_encoder._encoding, {"<more>": 5000})
    templates = ChatTemplate(CHATML), ChatTemplate(UNMARKED), ChatTemplate(CHATML, eos_token="x")
    made = {Realiser(one, template).fingerprint for one in (tiktoken_encoder, more) for template in templates}
    assert len(made) == 6


@pytest.mark.parametrize("reason", [None, "no token ids", Tokens().problem])
def test_steps_that_lack_nothing_but_ids_are_realised(tiktoken_encoder: TiktokenEncoder, reason: str | None) -> None:
    row = only(Realiser(tiktoken_encoder, ChatTemplate(CHATML)), {**STEP, "untrainable_reason": reason})
    assert row["reason"] is None and row["response_ids"]


def test_a_missing_column_is_named(tiktoken_encoder: TiktokenEncoder) -> None:
    with pytest.raises(InvalidRecord, match="the column status is missing"):
        Realiser(tiktoken_encoder, ChatTemplate(CHATML)).realise(steps(STEP).drop_columns(["status"]))


def test_no_steps_are_a_table_of_the_same_columns(tiktoken_encoder: TiktokenEncoder) -> None:
    realiser = Realiser(tiktoken_encoder, ChatTemplate(CHATML))
    empty = realiser.realise(steps())
    assert empty.num_rows == 0 and empty.schema.equals(realiser.realise(steps(STEP)).schema)


def test_images_are_placeholders_that_merge_by_content(encoder: Encoder) -> None:
    def asked(digest: str) -> dict[str, Any]:
        image = {"type": "image", "hash": digest}
        return {"messages": [said("user", "see: ", image, " what is it?")], "response": said("assistant", "a cat")}

    realiser = Realiser(encoder, ChatTemplate(CHATML), placeholders={"image": "<|image_pad|>"})
    table = realiser.realise(steps(asked("sha256:cat"), asked("sha256:dog"), asked("sha256:cat")))
    (pad,) = encoder.encode("<|image_pad|>").ids.tolist()
    place = table["prompt_ids"][0].as_py().index(pad)
    assert table["media"].to_pylist() == [
        [{"position": place, "hash": f"sha256:{one}"}] for one in ("cat", "dog", "cat")
    ]
    assert len(set(map(str, table["prompt_ids"].to_pylist()))) == 1
    sequences = Sequences.from_arrow(table["prompt_ids"], table["response_ids"], loss_mask=table["mask"])
    order = prefix_order(keyed_by_media(sequences, table["media"]))
    whole = int(sequences.lengths[0])
    assert sorted(order.shared.tolist()) == [0, place, whole]
    same = np.flatnonzero(order.shared == whole)[0]
    assert {int(order.order[same]), int(order.order[same - 1])} == {0, 2}
    assert pad in merge(sequences, prefixes=order).input_ids


def test_a_placeholder_that_somebody_wrote_is_not_taken_for_an_image(tiktoken_encoder: TiktokenEncoder) -> None:
    realiser = Realiser(tiktoken_encoder, ChatTemplate(CHATML), placeholders={"image": "<|image_pad|>"})
    for content in (["<|image_pad|>"], ["<|image_pad|>", IMAGE]):
        row = only(realiser, {**STEP, "messages": [said("user", *content)]})
        assert row["reason"] == "not one placeholder in the prompt for each of its media"
    with pytest.raises(InvalidRecord, match="is 2 tokens of ours, not one"):
        Realiser(tiktoken_encoder, ChatTemplate(CHATML), placeholders={"image": "!x"})


def test_media_that_do_not_fit_their_sequences_are_refused() -> None:
    sequences = Sequences.from_lists([[1, 2]], [[3]])
    for rows, why in (([], "has 0 rows"), ([[{"position": 2, "hash": "h"}]], "none of its prompt at 2")):
        kind = pa.list_(pa.struct([("position", pa.int32()), ("hash", pa.string())]))
        with pytest.raises(InvalidRecord, match=why):
            keyed_by_media(sequences, pa.array(rows, kind))


def test_the_same_steps_give_the_same_ids(encoder: Encoder) -> None:
    step = {**STEP, "tools": [{"name": "look", "description": "é", "input_schema": {"type": "object"}}]}
    made = [Realiser(encoder, ChatTemplate(CHATML)).realise(steps(step)) for _ in range(2)]
    assert made[0].equals(made[1]) and made[0]["reason"].to_pylist() == [None]
    text = json.dumps(
        [{"type": "function", "function": {"name": "look", "description": "é", "parameters": {"type": "object"}}}],
        ensure_ascii=False,
    )
    begin = encoder.encode(f"<|im_start|>tools\n{text}<|im_end|>\n").ids.tolist()
    assert made[0]["prompt_ids"][0].as_py()[: len(begin)] == begin
