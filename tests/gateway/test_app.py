from __future__ import annotations

from typing import Any


def test_the_interface_describes_itself(api: Any) -> None:
    schema = api.get("/openapi.json").json()
    assert set(schema["paths"]) == {
        "/api/v1/annotations/pairs",
        "/api/v1/annotations/queue",
        "/api/v1/attention",
        "/api/v1/batches/prefix-tree",
        "/api/v1/batches/preview",
        "/api/v1/datasets",
        "/api/v1/datasets/{dataset}",
        "/api/v1/datasets/{dataset}/download",
        "/api/v1/datasets/{dataset}/lineage",
        "/api/v1/datasets/{name}/diff",
        "/api/v1/events",
        "/api/v1/exchanges",
        "/api/v1/feedback",
        "/api/v1/feedback/bulk",
        "/api/v1/feedback/undo/{judgement_id}",
        "/api/v1/flush",
        "/api/v1/groups",
        "/api/v1/groups/{group_id}",
        "/api/v1/health",
        "/api/v1/policy",
        "/api/v1/prefix-tree",
        "/api/v1/producers",
        "/api/v1/quarantine",
        "/api/v1/quarantine/{exchange_id}",
        "/api/v1/quarantine/{exchange_id}/reparse",
        "/api/v1/ready",
        "/api/v1/stats",
        "/api/v1/stats/series",
        "/api/v1/steps",
        "/api/v1/steps/{step_id}",
        "/api/v1/steps/{step_id}/diff",
        "/api/v1/steps/{step_id}/exchange",
        "/api/v1/steps/{step_id}/tokens",
        "/api/v1/stream",
        "/api/v1/system",
        "/api/v1/system/tokens",
        "/api/v1/trajectories",
        "/api/v1/trajectories/{trajectory_id}",
        "/api/v1/trajectories/{trajectory_id}/complete",
        "/api/v1/version",
        "/api/v1/views",
        "/api/v1/views/{name}",
        "/api/v1/webhooks/{source}",
        "/metrics",
        "/v1/traces",
    }
    body = schema["paths"]["/api/v1/steps"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "prompt_ids" in body["oneOf"][0]["properties"] and body["oneOf"][1]["type"] == "array"
    assert all(operation.get("description") for path in schema["paths"].values() for operation in path.values())


def test_no_page_loads_scripts_from_elsewhere(api: Any) -> None:
    for path in ("/docs", "/redoc"):
        assert api.http.get(path).status_code == 404
