"""One of several client processes: `python clients.py PORT TOKEN NAME THREADS STOP LEAST`.

Each thread is an agent with one trajectory: it submits a turn or several, in one of the forms that the gateway takes, again and again
until they are acknowledged, and only then goes on. It ends when the file STOP is there and LEAST turns are done, and prints one JSON
object: by trajectory, the ids in their order, and how often what was cut off was sent again. Only the agents of client 0 use Arrow:
importing it eight times takes long.
"""

from __future__ import annotations

import gzip
import http.client
import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

HEADERS = {"host": "127.0.0.1", "content-type": "application/json"}


def turn(trajectory: str, number: int) -> dict[str, Any]:
    """Its prompt is the one before, the answer to it, and one id of the environment."""
    unique = int(trajectory.replace("-", "")) + 1000
    prompt = [unique, *(id_ for before in range(number) for id_ in (2 * before + 1, 2 * before + 2))]
    step = {"step_id": f"{trajectory}.{number}", "trajectory_id": trajectory, "prompt_ids": prompt}
    return {**step, "response_ids": [2 * number + 1]}


def arrow(steps: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa

    kind = pa.list_(pa.int32())
    columns: dict[str, Any] = {name: [step[name] for step in steps] for name in ("step_id", "trajectory_id")}
    columns |= {name: pa.array([step[name] for step in steps], kind) for name in ("prompt_ids", "response_ids")}
    batch, sink = pa.RecordBatch.from_pydict(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def request_of(steps: list[dict[str, Any]], form: int) -> tuple[bytes, dict[str, str]]:
    """A body and its headers, in a form of several."""
    plain = json.dumps(steps if len(steps) > 1 else steps[0]).encode()
    match form % 4:
        case 0:
            return plain, {}
        case 1:
            return gzip.compress(plain, 1), {"content-encoding": "gzip"}
        case 2:
            return b"\n".join(json.dumps(step).encode() for step in steps), {"content-type": "application/x-ndjson"}
        case _:
            return arrow(steps), {"content-type": "application/vnd.apache.arrow.stream"}


def submit(port: int, token: str, steps: list[dict[str, Any]], form: int, patience: random.Random) -> int:
    """Return when all of them are acknowledged: how many attempts were cut off."""
    body, extra = request_of(steps, form)
    headers = {**HEADERS, "authorization": f"Bearer {token}", "idempotency-key": steps[0]["step_id"], **extra}
    cut = 0
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("POST", "/api/v1/steps", body, headers)
            answer = connection.getresponse()
            said = json.loads(answer.read())
            if answer.status == 200:
                assert {item["status"] for item in said["items"]} <= {"accepted", "duplicate"}, said
                return cut
            assert answer.status in (409, 503), said
        except (OSError, http.client.HTTPException, ValueError):
            cut += 1  # killed: before, within or after its answer
        finally:
            connection.close()
        time.sleep(patience.uniform(0.02, 0.2))


def agent(
    port: int, token: str, trajectory: str, stop: Path, least: int, done: dict[str, list[str]], cut: list[int]
) -> None:
    patience = random.Random(trajectory)
    number = 0
    while number < least or not stop.exists():
        steps = [turn(trajectory, number + more) for more in range(patience.choice((1, 1, 3)))]
        again = submit(port, token, steps, patience.randrange(4 if trajectory.startswith("0-") else 3), patience)
        cut.append(again)
        done[trajectory] += [step["step_id"] for step in steps]
        number += len(steps)
        time.sleep(patience.uniform(0.4, 1.2))


def main() -> None:
    port, token, name, threads, stop, least = sys.argv[1:]
    done: dict[str, list[str]] = {f"{name}-{number}": [] for number in range(int(threads))}
    cut: list[int] = []
    agents = [
        threading.Thread(target=agent, args=(int(port), token, trajectory, Path(stop), int(least), done, cut))
        for trajectory in done
    ]
    for one in agents:
        one.start()
    for one in agents:
        one.join()
    print(json.dumps({"done": done, "again": sum(cut)}))


if __name__ == "__main__":
    main()
