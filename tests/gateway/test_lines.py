"""NDJSON: one record per line, each answered for on its own."""

from __future__ import annotations

from typing import Any

from stepwell.gateway import GatewayConfig

LINES = {"content-type": "application/x-ndjson"}


def test_one_record_per_line(api: Any) -> None:
    body = (
        b'{"step_id":"a","prompt_ids":[1],"response_ids":[2]}\n\n  \r\n'
        b'{"step_id":"b","messages":[{"role":"user","content":"q"}],"response":"x"}\n'
    )
    items = api.post("/steps", content=body, headers=LINES).json()["items"]
    assert [(item["id"], item["status"]) for item in items] == [("a", "accepted"), ("b", "accepted")]
    a, b = api.steps()
    assert (a.prompt_ids, b.response) == ([1], {"role": "assistant", "content": "x"})


def test_a_line_that_is_no_json_spares_its_neighbours(api: Any) -> None:
    body = b'{"feedback_id":"a","step_id":"s","reward":1}\n{"feedback_id":\n[]\n{"feedback_id":"b","step_id":"s","reward":NaN}'
    items = api.post("/feedback", content=body, headers=LINES).json()["items"]
    assert [item["status"] for item in items] == ["accepted", "refused", "refused", "refused"]
    assert items[1]["message"].startswith("line 2: ") and items[3]["field"] == "reward"
    assert [record.id for record in api.records()] == ["feedback.a"]


def test_lines_are_counted(api_of: Any) -> None:
    api = api_of(GatewayConfig(max_batch=2))
    assert api.post("/steps", content=b"{}\n{}\n{}", headers=LINES).status_code == 413
    assert api.post("/steps", content=b"", headers=LINES).json() == {"items": []}


def test_only_steps_come_as_arrow_and_an_ending_is_one_object(api: Any) -> None:
    arrow = {"content-type": "application/vnd.apache.arrow.stream"}
    assert api.post("/feedback", content=b"", headers=arrow).status_code == 415
    assert api.post("/trajectories/t/complete", content=b"{}\n{}", headers=LINES).status_code == 415
