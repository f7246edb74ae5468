"""`python -m stepwell.testing`: the scripted server as a process of its own.

Prints one JSON line, `{"port": …, "ca": …}`, when it accepts connections, and stops on SIGTERM, on SIGINT, or with
`--watch-stdin` when its standard input ends, so that it never outlives the program that started it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from stepwell.errors import SettingsError
from stepwell.testing import Script, ScriptedServer
from stepwell.testing._server import DEFAULT_NAMES


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        server = ScriptedServer(
            load_script(options.script),
            port=options.port,
            tls=not options.plain,
            http2=not options.no_http2,
            names=options.name or DEFAULT_NAMES,
            log_path=options.log,
            weight_version=options.weight_version,
            keep_calls=options.keep,
            sockets=not options.no_sockets,
        )
        with server:
            _serve(server, options.ca_out, watch_stdin=options.watch_stdin)
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _serve(server: ScriptedServer, ca_out: Path | None, *, watch_stdin: bool) -> None:
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    ca = server.ca_file if server.ca is not None else None
    if ca is not None and ca_out is not None:
        ca = shutil.copyfile(ca, ca_out)
    sys.stdout.write(json.dumps({"port": server.port, "ca": str(ca) if ca else None}) + "\n")
    sys.stdout.flush()
    if watch_stdin:
        threading.Thread(target=_wait_for_end, args=(stopped,), daemon=True).start()
    stopped.wait()


def _wait_for_end(stopped: threading.Event) -> None:
    # Not through sys.stdin: a thread that still waits in its lock is a fatal error when the interpreter ends.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stopped.set()


def load_script(spec: str) -> Script:
    """The script named `module:function`. Raises `SettingsError` when there is none."""
    module, _, name = spec.partition(":")
    try:
        script = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"there is no script {spec!r} ({error}): name it as module:function") from error
    if not callable(script):
        raise SettingsError(f"{spec!r} is a {type(script).__name__}: a script is a function from a ChatCall to a Reply")
    return cast("Script", script)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stepwell.testing", description="A scripted LLM server on 127.0.0.1."
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    parser.add_argument("--script", default="stepwell.testing:demo_script", metavar="MODULE:FUNCTION")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append each call to this file, a JSON line each")
    parser.add_argument("--ca-out", type=Path, metavar="FILE", help="write the authority's certificate here")
    parser.add_argument("--plain", action="store_true", help="plain HTTP, no TLS")
    parser.add_argument("--no-http2", action="store_true", help="offer HTTP/1.1 only")
    parser.add_argument("--no-sockets", action="store_true", help="answer upgrades to a WebSocket with 426")
    parser.add_argument("--name", action="append", help="a name or address for the certificate (repeat for more)")
    parser.add_argument("--weight-version", help="what requests with return_weight_versions are told")
    parser.add_argument("--keep", type=int, default=1000, help="calls held in memory (the log file has them all)")
    parser.add_argument("--watch-stdin", action="store_true", help="stop when standard input ends")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
