"""The gateway is killed while agents submit: what was submitted arrives, once, in order."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

from stepwell import sdk

THREADS, STEPS, KILLS = 4, 300, 3


def test_killed_and_restarted_nothing_is_lost_or_doubled(gateway_process: Any, token: str) -> None:
    with sdk.Client(gateway_process.url, token) as client:
        acknowledged = 0

        def rollout(name: str) -> None:
            with client.trajectory(name):
                for number in range(STEPS):
                    client.submit_step(step_id=f"{name}.{number}", prompt_ids=[number], response_ids=[1])
                    if number % 10 == 0:
                        time.sleep(0.01)

        threads = [threading.Thread(target=rollout, args=(f"t{number}",)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            time.sleep(0.1)
            gateway_process.end(signal.SIGKILL)
            acknowledged = client.status().acknowledged
            assert len(gateway_process.records()) >= acknowledged  # what was acknowledged is on the disk
            gateway_process.start()
        for thread in threads:
            thread.join()
        flushed = client.flush(timeout=60)
    total = THREADS * (STEPS + 2)
    assert (flushed.acknowledged, flushed.unacknowledged, flushed.refused, flushed.dropped) == (total, 0, 0, 0)
    ids = [record.id for record in gateway_process.records()]
    assert len(ids) == len(set(ids)) == total
    for number in range(THREADS):
        own = [id.removeprefix(f"step.t{number}.") for id in ids if id.startswith(f"step.t{number}.")]
        assert own == [str(step) for step in range(STEPS)]
