"""Public test seams: a scripted LLM server that behaves, byte for byte, like an inference engine.

Agents, proxies and pipelines are hard to test against a real model: it costs money, answers differently each time and
never fails on demand. `ScriptedServer` stands in for one, over HTTP/1.1 and HTTP/2, plain or TLS with a throw-away authority. A script
(a function from the conversation to a `Reply`) decides what the model says; a `Delivery` on the reply decides what goes wrong on the way.
The server keeps its own log of what it truly sampled, to compare with what was captured::

    def script(call: ChatCall) -> Reply:
        return Reply(content="Grüße 👋")

    with ScriptedServer(script) as server:
        client = OpenAI(base_url=server.base_url, http_client=httpx2.Client(verify=server.client_context()))
        client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "hi"}])
        assert server.calls[0].choices[0].text == "Grüße 👋"

The same script answers in every dialect, under any prefix of the path, whole or streamed:

    OpenAI        /chat/completions and /completions in the shape of vLLM asked for token ids; /responses, on a WebSocket too
    Anthropic     /messages
    Gemini        /models/<model>:generateContent, :streamGenerateContent (server-sent events, or a JSON array)
    Ollama        /api/chat, /api/generate
    Bedrock       /model/<id>/converse, converse-stream; with Anthropic's bodies invoke, invoke-with-response-stream

It sees the conversation in the words of chat completions (`ChatCall.dialect` says how it was asked), and its finish reasons become the
vendor's own; one the vendor has no word for stays as it is.

The tokenizer is a real one (`ByteTokenizer`) and the chat template a real template (`ChatTemplate`), so ids, text and
log-probabilities belong together, and the prompt of turn N+1 is an exact append of turn N's prompt and response.

`python -m stepwell.testing` runs the same server as a process. Needs the extra `testing`, all but this: programs that submit through
the SDK are tested with a gateway in memory::

    with recorded() as records:
        run_my_agent()
    assert records.steps[0]["reward"] == 1.0
"""

from __future__ import annotations

from stepwell.testing._transport import MemoryGateway, Records, recorded

try:
    from stepwell.testing._app import ScriptedApp
    from stepwell.testing._demo_script import demo_script
    from stepwell.testing._demo_tasks import DEMO_TASKS, DemoTask
    from stepwell.testing._log import LoggedCall, LoggedChoice
    from stepwell.testing._script import ChatCall, Delivery, Reply, Script, ToolCall
    from stepwell.testing._server import ScriptedServer
    from stepwell.testing._template import CHAT_TEMPLATE, ChatTemplate
    from stepwell.testing._tls import ThrowawayCA
    from stepwell.testing._tokenizer import ByteTokenizer
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] not in {
        "cryptography",
        "hypercorn",
        "jinja2",
        "orjson",
        "starlette",
    }:
        raise
    _missing = error.name.split(".")[0]

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from stepwell.errors import MissingExtra

        raise MissingExtra(_missing, "testing")


__all__ = [
    "CHAT_TEMPLATE",
    "DEMO_TASKS",
    "ByteTokenizer",
    "ChatCall",
    "ChatTemplate",
    "Delivery",
    "DemoTask",
    "LoggedCall",
    "LoggedChoice",
    "MemoryGateway",
    "Records",
    "Reply",
    "Script",
    "ScriptedApp",
    "ScriptedServer",
    "ThrowawayCA",
    "ToolCall",
    "demo_script",
    "recorded",
]
