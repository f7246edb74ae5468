from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from stepwell.spool import Entry, ProcessLock, Spool, write_cursor

STEP: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2]}


def samples(api: Any) -> dict[tuple[str, ...], float]:
    answer = api.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_records_are_counted_by_kind_and_outcome(api: Any) -> None:
    api.post("/steps", [{**STEP, "step_id": "a"}, {**STEP, "step_id": "a"}, {}])
    api.post("/feedback", {"step_id": "a"})
    found = samples(api)
    for key, value in {
        ("step", "accepted"): 1,
        ("step", "duplicate"): 1,
        ("step", "refused"): 1,
        ("feedback", "refused"): 1,
    }.items():
        assert found[("stepwell_gateway_records_total", *key)] == value


def test_every_producers_spool(api: Any) -> None:
    for _ in range(3):
        api.post("/steps", STEP)
    with Spool(api.folder / "proxy.db") as other:
        other.append([Entry("x", "request")])
        other.add_lost(4)
    own = api.spool.producer
    write_cursor(api.folder, {own: 2, other.producer: 1})
    found = samples(api)
    assert found[("stepwell_spool_last_number", own)] == 3
    assert found[("stepwell_spool_committed_number", own)] == 2
    assert found[("stepwell_spool_lag_records", own)] == 1
    assert found[("stepwell_spool_oldest_age_seconds", own)] >= 0
    assert found[("stepwell_spool_lag_records", other.producer)] == 0
    assert found[("stepwell_spool_oldest_age_seconds", other.producer)] == 0
    assert found[("stepwell_spool_lost_total", other.producer)] == 4


def test_who_runs_on_the_data_folder(api: Any) -> None:
    with Spool(api.folder / "proxy.db") as other:
        found = samples(api)
        assert (
            found[("stepwell_spool_alive", other.producer)] == found[("stepwell_spool_alive", api.spool.producer)] == 1
        )
    assert found[("stepwell_ingest_alive",)] == 0
    lock = ProcessLock(api.folder.parent / "ingest.lock")
    assert lock.acquire()
    try:
        found = samples(api)
    finally:
        lock.release()
    assert found[("stepwell_ingest_alive",)] == 1
    assert found[("stepwell_spool_alive", other.producer)] == 0


def test_no_label_grows_with_the_data(api: Any) -> None:
    api.post("/steps", [{**STEP, "trajectory_id": f"trajectory-{number}"} for number in range(20)])
    api.post("/trajectories/trajectory-1/complete")
    assert "trajectory-" not in api.http.get("/metrics").text
