"""A service in production that tells what its users did with answers, by signed webhooks: no SDK, no token, the calls as they were.

The gateway knows the service by its secret (`stepwell.toml`: `[gateway.webhooks]`, `shop = "…"`). Events come as lines of JSON, as a
service's own log would give them; an answer is known by the id that the provider gave it.

    STEPWELL_WEBHOOK_SECRET=… python examples/live_service.py --source shop < events.jsonl

    {"event_id": "e1", "response_id": "chatcmpl-…", "type": "shown"}
    {"event_id": "e2", "response_id": "chatcmpl-…", "type": "edited", "text": "It is 42."}
    {"event_id": "e3", "response_id": "chatcmpl-…", "type": "resolved"}
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import sys
import time
from typing import Any

import httpx2

ATTEMPTS = 5


def signed(secret: str, body: bytes) -> dict[str, str]:
    """The headers that show who sends this body, and when."""
    at = str(int(time.time()))
    digest = hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"X-Stepwell-Timestamp": at, "X-Stepwell-Signature": f"v1={digest}", "Content-Type": "application/x-ndjson"}


def deliver(http: httpx2.Client, source: str, secret: str, lines: list[str]) -> list[dict[str, Any]]:
    """What became of each event. Each attempt is signed anew; the events' own ids make a repeated one recognisable."""
    body, problem = "\n".join(lines).encode(), ""
    for attempt in range(ATTEMPTS):
        try:
            answer = http.post(f"/api/v1/webhooks/{source}", content=body, headers=signed(secret, body))
        except httpx2.TransportError as error:
            problem = str(error)
        else:
            if answer.status_code in (200, 422):  # 422: all of them are wrong, and each says why
                items: list[dict[str, Any]] = answer.json()["items"]
                return items
            problem = answer.text
            if answer.status_code not in (429, 503):
                break
        time.sleep(0.2 * 2**attempt)
    raise SystemExit(f"{len(lines)} events were not delivered: {problem}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--url", default=os.environ.get("STEPWELL_URL", "http://127.0.0.1:8787"))
    options = parser.parse_args()
    lines = [line.strip() for line in sys.stdin if line.strip()]
    with httpx2.Client(base_url=options.url) as http:
        secret = os.environ["STEPWELL_WEBHOOK_SECRET"]
        parts = [lines[start : start + 100] for start in range(0, len(lines), 100)]
        items = [item for part in parts for item in deliver(http, options.source, secret, part)]
    refused = [item for item in items if item["status"] == "refused"]
    for item in refused:
        print(f"{item['id']}: {item['field']}: {item['message']}", file=sys.stderr)
    print(json.dumps({"taken": len(items) - len(refused), "wrong": len(refused)}))
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
