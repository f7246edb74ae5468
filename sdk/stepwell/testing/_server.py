"""The scripted server: `ScriptedApp` on a socket of 127.0.0.1, in a thread of the current process."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from stepwell.errors import SettingsError
from stepwell.testing._app import ScriptedApp
from stepwell.testing._log import LoggedCall
from stepwell.testing._script import Script
from stepwell.testing._serving import serve_until
from stepwell.testing._tls import ThrowawayCA
from stepwell.testing._tokenizer import ByteTokenizer

DEFAULT_NAMES = (
    "localhost",
    "127.0.0.1",
    "api.openai.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "ollama.com",
    "bedrock-runtime.us-east-1.amazonaws.com",
)


class ScriptedServer:
    """A scripted LLM server, as a context manager: listening inside, gone after.

    script: decides what the model says; called on the server's thread.
    port: 0 takes a free one.
    tls: serve HTTPS with a certificate for `names`, from an authority made for this run; else plain HTTP.
    http2: offer HTTP/2 (ALPN `h2`), besides HTTP/1.1.
    log_path: also append each call to this file, a JSON line each.
    keep_calls: hold only so many of the newest calls in memory.
    sockets: speak OpenAI's Responses API over WebSockets too; else their upgrades are answered with 426.
    """

    def __init__(
        self,
        script: Script,
        *,
        port: int = 0,
        tls: bool = True,
        http2: bool = True,
        names: Sequence[str] = DEFAULT_NAMES,
        models: Sequence[str] = ("scripted",),
        weight_version: str | None = None,
        log_path: Path | str | None = None,
        keep_calls: int | None = None,
        sockets: bool = True,
    ) -> None:
        self.app = ScriptedApp(
            script,
            models=models,
            weight_version=weight_version,
            log_path=Path(log_path) if log_path is not None else None,
            keep_calls=keep_calls,
            sockets=sockets,
        )
        self._wanted_port, self._tls, self._http2, self._names = port, tls, http2, tuple(names)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.port: int = port
        self.ca: ThrowawayCA | None = ThrowawayCA() if tls else None

    @property
    def url(self) -> str:
        """Scheme, address and port, without a trailing slash."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return self.url + "/v1"

    @property
    def ca_file(self) -> Path:
        """File with the authority's certificate, for `SSL_CERT_FILE`; it is there while the server runs."""
        if self._folder is None:
            raise SettingsError("the scripted server has no CA file: start it, with tls=True")
        return Path(self._folder.name) / "ca.pem"

    def client_context(self) -> ssl.SSLContext:
        """A TLS context for clients that trusts this server's authority and no other."""
        return ssl.create_default_context(cafile=self.ca_file)

    @property
    def tokenizer(self) -> ByteTokenizer:
        return self.app.tokenizer

    @property
    def calls(self) -> list[LoggedCall]:
        """The calls that have ended, oldest first. A client that has a whole reply finds its call here."""
        return self.app.log.snapshot()

    def wait_for_calls(self, count: int, timeout: float = 10.0) -> list[LoggedCall]:
        """The calls, once `count` have ended: for replies cut short. Raises `TimeoutError` after `timeout` seconds."""
        return self.app.log.wait_for(count, timeout)

    def start(self) -> Self:
        """Bind and serve; returns when connections are accepted. Raises `SettingsError` when the port is taken."""
        if self._thread is not None:
            raise SettingsError("this scripted server is running already: make another one")
        try:
            listener = socket.create_server(("127.0.0.1", self._wanted_port), backlog=1024)
        except OSError as error:
            message = f"cannot listen on 127.0.0.1:{self._wanted_port} ({error.strerror}): choose another port, or 0"
            raise SettingsError(message) from error
        self.port = listener.getsockname()[1]
        context = self._server_context() if self.ca is not None else None
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(listener, context, ready), name="scripted-llm", daemon=True
        )
        self._thread.start()
        ready.result()
        return self

    def stop(self) -> None:
        """Stop listening, end replies under way (logged as not delivered), and wait until all is closed."""
        if self._thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._thread = self._loop = self._stop = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, listener: socket.socket, context: ssl.SSLContext | None, ready: Future[None]) -> None:
        async def main() -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            await serve_until(self.app.asgi, listener, context, lambda: ready.set_result(None), self._stop)

        with listener:
            try:
                asyncio.run(main())
            except BaseException as error:  # handed to the thread that waits in start()
                if ready.done():
                    raise
                ready.set_exception(error)

    def _server_context(self) -> ssl.SSLContext:
        assert self.ca is not None
        self._folder = tempfile.TemporaryDirectory(prefix="stepwell-testing-")
        folder = Path(self._folder.name)
        certificate, key = self.ca.issue(self._names)
        chain = folder / "server.pem"
        chain.touch(mode=0o600)
        chain.write_bytes(certificate + key)
        self.ca_file.write_bytes(self.ca.pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2", "http/1.1"] if self._http2 else ["http/1.1"])
        context.load_cert_chain(chain)
        # ssl reads keys from files only; once read, the file is not needed.
        chain.unlink()
        return context
