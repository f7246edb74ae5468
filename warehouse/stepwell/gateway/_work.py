"""A worker: reads questions, one JSON object per line, and answers each in one line: a status, a space, and JSON.

The first line says which warehouse it is about. It ends when its questions do, or none has come for a while; whatever it works on then is
wanted by nobody.

    python -m stepwell.gateway._work
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from stepwell.errors import InvalidRecord, StepwellError, StoreError
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._work_preview import preview
from stepwell.gateway._work_tree import Trees

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

__all__ = ["answer_of"]

_log = logging.getLogger(__name__)

IDLE = 60.0
"""Seconds without a question after which it ends, and what it remembers is free."""
NICE = 5
"""How much the gateway, ingest and everybody else come first."""

Task = Callable[["Warehouse", Mapping[str, Any]], dict[str, Any]]


def answer_of(task: Task, warehouse: Callable[[], Warehouse], asked: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """A status and a document: of what the task gives, or of the problem with it. Never raises."""
    from stepwell.warehouse import BadQuery

    try:
        return 200, task(warehouse(), asked)
    except Problem as problem:
        return _refusal(problem.status, str(problem), **problem.more)
    except InvalidRecord as error:
        return _refusal(422, str(error), field=error.field)
    except BadQuery as error:
        return _refusal(422, f"where: {error}", field="where")
    except StoreError as error:
        return _refusal(503, str(error))
    except MemoryError:
        return _refusal(503, "there is not enough memory for this: ask for less")
    except StepwellError as error:
        return _refusal(422, str(error))
    except Exception:  # noqa: BLE001 - the boundary of the process: whoever asked gets an answer, and the log the reason
        _log.exception("a question could not be answered")
        return _refusal(500, "an unexpected error, which the gateway's log explains")


def _refusal(status: int, detail: str, **more: Any) -> tuple[int, dict[str, Any]]:
    return status, {
        "type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more
    }  # fmt: skip


def _lines(source: BinaryIO) -> queue.SimpleQueue[bytes]:
    """What comes in. When there is no more, the process ends, in the midst of whatever it does."""
    found: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in source:
            found.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return found


def _main() -> None:
    questions, answers = _lines(sys.stdin.buffer), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is not an answer
    os.nice(NICE)
    hello = orjson.loads(questions.get())
    opened: list[Warehouse] = []

    def warehouse() -> Warehouse:
        if not opened:
            from stepwell.warehouse import Warehouse

            opened.append(Warehouse.open(hello["uri"], storage_options=hello["options"], create=False))
        return opened[0]

    trees = Trees()
    tasks: dict[str, Task] = {"preview": preview, "tree": trees.selected, "batch-tree": trees.batch}
    while True:
        try:
            question = orjson.loads(questions.get(timeout=IDLE))
        except queue.Empty:
            os._exit(0)  # a thread waits for standard input, which Python would not close in peace
        status, document = answer_of(tasks[question["task"]], warehouse, question["asked"])
        answers.write(b"%d %s\n" % (status, bytes(json_response(document).body)))
        answers.flush()


if __name__ == "__main__":
    _main()
