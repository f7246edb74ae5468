"""Recording the calls of a client of OpenAI or Anthropic, below everything that the client does: at its HTTP client's transport.

What the caller gets, and when, does not change: the same response, its bytes copied as they are read. So retries, streams, raw responses
and answers that fail to parse are all recorded as they were. Trouble in recording is counted, logged once, and never reaches the caller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from stepwell.errors import InvalidRecord
from stepwell.sdk._calls import Call
from stepwell.sdk._heads import is_generation

__all__ = ["Asking", "Recorder", "record_calls"]

_LIBRARIES = ("httpx2", "httpx")
Asking = tuple[str, list[tuple[str, str]], bytes]
"""URL, headers, body."""


class Recorder(Protocol):
    """Who is told of the calls."""

    def begin_call(self, request: Asking) -> Call:
        """A call to record. May raise."""
        ...

    def call_lost(self, why: str) -> None:
        """There was a call, and there will be no record of it. Never raises."""
        ...


def record_calls(client: object, recorder: Recorder) -> None:
    """Have every call of `client` that becomes steps recorded; twice is once. Raises InvalidRecord for what is no such client."""
    http, library = _http_client(client)
    sync, asynchronous = _transports(library)
    kind = asynchronous if isinstance(http, library.AsyncClient) else sync

    def recording(transport: Any) -> Any:
        return transport if transport is None or isinstance(transport, kind) else kind(transport, recorder)

    http._transport = recording(http._transport)
    for pattern, transport in http._mounts.items():  # one per proxy
        http._mounts[pattern] = recording(transport)


def _http_client(client: object) -> tuple[Any, ModuleType]:
    """The HTTP client inside (or the one that was given), and the library it is of."""
    for http in (client, getattr(client, "_client", None)):
        for base in type(http).__mro__:
            library = base.__module__.partition(".")[0]
            if library in _LIBRARIES and hasattr(http, "_transport") and hasattr(http, "_mounts"):
                return http, import_module(library)
    raise InvalidRecord(
        "client", f"is of type {type(client).__name__}, not a client of OpenAI or Anthropic (or of httpx)"
    )


def _begun(recorder: Recorder, request: Any) -> Call | None:
    """The call to follow; None where it is none that becomes steps, or cannot be recorded."""
    try:
        # Asked first: the body of an upload cannot be read before it is sent, and that is nothing lost.
        if not is_generation(request.method, url := str(request.url)):
            return None
        return recorder.begin_call((url, request.headers.multi_items(), request.content))
    except Exception as error:  # noqa: BLE001 - the boundary of recording: the caller's own call goes on
        recorder.call_lost(f"{type(error).__name__}: {error}")
        return None


def _answered(call: Call, response: Any, teed: Callable[[Any, Call], Any]) -> None:
    """Have the response's bytes copied. One that was read already, as a test's transport gives it, is taken as it is."""
    try:
        headers = response.headers.multi_items()
        if response.is_closed:
            call.answered(response.status_code, [pair for pair in headers if pair[0].lower() != "content-encoding"])
            call.got(response.content)
            call.end("complete")
        else:
            call.answered(response.status_code, headers)
            response.stream = teed(response.stream, call)
    except Exception as error:  # noqa: BLE001 - the boundary of recording: the caller's own call goes on
        call.lost(f"{type(error).__name__}: {error}")


def _failed(call: Call, error: BaseException) -> None:
    """What is no `Exception` is the caller's: a cancelled task, Ctrl-C."""
    if isinstance(error, Exception):
        call.end("upstream_error", error)
    else:
        call.end("client_disconnect")


@cache
def _transports(library: ModuleType) -> tuple[type[Any], type[Any]]:
    """The recording transports of an HTTP library, which looks at the base classes of its streams."""
    sync_stream, async_stream = _streams(library)

    class Recording(_Delegating, library.BaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            if (call := _begun(self._recorder, request)) is None:
                return self._inner.handle_request(request)
            try:
                response = self._inner.handle_request(request)
            except BaseException as error:
                _failed(call, error)
                raise
            _answered(call, response, sync_stream)
            return response

        def __enter__(self) -> Any:
            self._inner.__enter__()
            return self

        def __exit__(self, *details: Any) -> None:
            self._inner.__exit__(*details)

        def close(self) -> None:
            self._inner.close()

    class AsyncRecording(_Delegating, library.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            if (call := _begun(self._recorder, request)) is None:
                return await self._inner.handle_async_request(request)
            try:
                response = await self._inner.handle_async_request(request)
            except BaseException as error:
                _failed(call, error)
                raise
            _answered(call, response, async_stream)
            return response

        async def __aenter__(self) -> Any:
            await self._inner.__aenter__()
            return self

        async def __aexit__(self, *details: Any) -> None:
            await self._inner.__aexit__(*details)

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Recording, AsyncRecording


class _Delegating:
    """Passes on whatever else is asked of the transport inside."""

    def __init__(self, inner: Any, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_recorder"):  # a copy in the making
            raise AttributeError(name)
        return getattr(self._inner, name)


def _streams(library: ModuleType) -> tuple[type[Any], type[Any]]:
    class Stream(library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, inner: Any, call: Call) -> None:
            self._inner = inner
            self._call = call

        def __iter__(self) -> Iterator[bytes]:
            try:
                for piece in self._inner:
                    self._call.got(piece)
                    yield piece
            except BaseException as error:
                _failed(self._call, error)
                raise
            self._call.end("complete")

        def close(self) -> None:
            try:
                self._inner.close()
            finally:
                self._call.end("client_disconnect")

    class AsyncStream(library.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, inner: Any, call: Call) -> None:
            self._inner = inner
            self._call = call

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in self._inner:
                    self._call.got(piece)
                    yield piece
            except BaseException as error:
                _failed(self._call, error)
                raise
            self._call.end("complete")

        async def aclose(self) -> None:
            try:
                await self._inner.aclose()
            finally:
                self._call.end("client_disconnect")

    return Stream, AsyncStream
