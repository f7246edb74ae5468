"""What `stepwell doctor` asks the running processes."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from stepwell.cli._bypass import without_upstream
from stepwell.cli._control import Control
from stepwell.cli._finding import Finding, bad, ok, warn
from stepwell.cli._settings import Settings
from stepwell.errors import SettingsError, SpoolError, StepwellError
from stepwell.home import home_folder, read_token
from stepwell.proxy import CONTROL_HOST, look_at_ca
from stepwell.spool import held

_TIMEOUT = 10.0
_NAME = "stepwell-doctor"
_LLM = re.compile(
    r"openai|anthropic|claude|gemini|mistral|llama|qwen|deepseek|bedrock|llm|inference|generativelanguage"
    r"|ai-?gateway|(^|[.-])(vllm|sglang|ollama|litellm|gpt)([.:-]|$)|^api\..*\.ai(:\d+)?$"
)
"""What the names of LLM endpoints look like."""
_SHOWN = 5


def stack_findings(settings: Settings) -> Iterator[Finding]:
    """Ports and processes; with a proxy that answers, what it says and whether it decrypts."""
    proxy, gateway = settings.proxy, settings.gateway
    control = Control(proxy.host, proxy.run_port, CONTROL_HOST, _NAME, read_token(home_folder()) or "none")
    health, run = _proxy(control)
    anonymous = _listens("proxy.port", proxy.host, proxy.port, b"Stepwell proxy")
    api = _listens("gateway", gateway.host, gateway.port, b'"status"', "/api/v1/health")
    ingest = _ingest(settings)
    silent = [finding.message.startswith("nothing") for finding in (run, anonymous, api, ingest)]
    if all(silent[:3]) and _runs(settings):
        words = "`stepwell up` runs on this data folder, but on other ports than these settings say"
        yield bad("stack", words, "give the settings that it was started with (--config, STEPWELL_…)")
        return
    if all(silent):
        yield warn("stack", "nothing runs; the ports are free", "start `stepwell up`")
        return
    for finding, missing in zip((run, anonymous, api, ingest), silent, strict=True):
        yield bad(finding.check, finding.message, "start `stepwell up`, or see its log") if missing else finding
    if health is not None:
        yield from _about_proxy(health, settings)
        yield decrypts(settings, control)
        yield from hosts(control)


def _proxy(control: Control) -> tuple[dict[str, Any] | None, Finding]:
    where = f"{control.host}:{control.port}"
    try:
        health = control.get("/health")
    except SettingsError as error:
        return None, bad("proxy", str(error))
    except ConnectionRefusedError:
        return None, warn("proxy", f"nothing listens on {where}")
    except (OSError, http.client.HTTPException, StepwellError) as error:
        words = f"what listens on {where} is no Stepwell proxy ({str(error) or type(error).__name__})"
        return None, bad("proxy", words, "stop it, or set proxy.run_port to another port")
    return health, ok(
        "proxy", f"answers on {where}, version {health.get('version')}, {health.get('in_flight')} calls in flight"
    )


def _listens(check: str, host: str, port: int, mark: bytes, path: str = "/") -> Finding:
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse().read(1 << 16)
    except ConnectionRefusedError:
        return warn(check, f"nothing listens on {host}:{port}")
    except (OSError, http.client.HTTPException):
        answer = b""
    finally:
        connection.close()
    if mark in answer:
        return ok(check, f"answers on {host}:{port}")
    return bad(
        check, f"port {port} on {host} is taken by another program", f"stop it, or set {check.partition('.')[0]}.port"
    )


def _ingest(settings: Settings) -> Finding:
    try:
        running = held(settings.data / "ingest-process.lock")
    except SpoolError as error:
        return bad("ingest", str(error), "remove that file")
    return ok("ingest", "runs") if running else warn("ingest", "nothing ingests this data folder")


def _runs(settings: Settings) -> bool:
    try:
        return held(settings.data / "up.lock")
    except SpoolError:
        return False


def _about_proxy(health: Mapping[str, Any], settings: Settings) -> Iterator[Finding]:
    if lost := health.get("lost"):
        yield warn("losses", f"{lost} calls went through unrecorded since the proxy was started", "its log says why")
    if words := without_upstream(os.environ, health, settings.proxy):
        yield warn("upstream", words)
    elif upstream := health.get("upstream_proxy"):
        yield ok("upstream", f"hosts are reached through {upstream}")


def decrypts(settings: Settings, control: Control) -> Finding:
    """A tunnel through the proxy to a host that it should decrypt, up to the handshake: nothing leaves this machine."""
    hosts = [*settings.proxy.hosts, *(route.host for route in settings.proxy.routes)]
    if not hosts:
        return warn("decryption", "no host is decrypted", "name some under proxy.hosts")
    name = hosts[0].replace("*", "doctor").replace("?", "x")
    host, _, port = name.partition(":") if not name.startswith("[") else (name[1:].partition("]")[0], "", "")
    try:
        found = look_at_ca(home_folder())
        context = ssl.create_default_context(cafile=str(found.certificate)) if found else ssl.create_default_context()
        with _tunnel(control, host, int(port or 443)) as tunnel, context.wrap_socket(tunnel, server_hostname=host):
            return ok("decryption", f"works (tried with {host}, without a call)")
    except ssl.SSLCertVerificationError as error:
        words = f"what the proxy shows for {host} is not trusted: {error.verify_message}"
        return bad(
            "decryption", words, "restart `stepwell up`: its certificate or its hosts are older than the settings"
        )
    except (OSError, StepwellError) as error:
        return bad("decryption", f"a tunnel to {host} failed: {error}", "see the log of `stepwell up`")


def _tunnel(control: Control, host: str, port: int) -> socket.socket:
    opened = socket.create_connection((control.host, control.port), timeout=_TIMEOUT)
    try:
        _connect(opened, control, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except BaseException:
        opened.close()
        raise
    return opened


def _connect(opened: socket.socket, control: Control, where: str) -> None:
    credentials = base64.b64encode(f"{control.trajectory}:{control.token}".encode()).decode()
    head = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\nProxy-Authorization: Basic {credentials}\r\n\r\n"
    opened.sendall(head.encode())
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < 1 << 16:
        if not (piece := opened.recv(4096)):
            break
        answer += piece
    if not re.match(rb"HTTP/1\.[01] 200 ", answer):
        raise OSError(answer.partition(b"\r\n")[0].decode("latin-1") or "the proxy hung up")


def hosts(control: Control) -> Iterator[Finding]:
    """Hosts that pass unread and look like LLM endpoints, and those whose clients do not trust the certificate."""
    try:
        said = control.get("/hosts")
    except (OSError, http.client.HTTPException, StepwellError) as error:
        yield warn("hosts", f"the proxy does not say which hosts it saw: {error}")
        return
    passed = [name for name in _names(said, "passed") if _LLM.search(name)]
    if passed:
        lines = ", ".join(f"{{host = {json.dumps(name)}}}" for name in passed[:_SHOWN])
        yield warn(
            "hosts",
            f"passed undecrypted, and look like LLM endpoints: {_some(passed)}",
            f"to capture them: proxy.routes = [{lines}] in stepwell.toml, beside the routes there are",
        )
    else:
        yield ok("hosts", f"{len(_names(said, 'passed'))} hosts passed undecrypted, none looks like an LLM endpoint")
    if distrusted := _names(said, "distrusted"):
        yield warn(
            "trust",
            f"clients refused the proxy's certificate for {_some(distrusted)}, so their calls fail",
            "start them with `stepwell run`, or give them the certificate of `stepwell ca`",
        )


def _names(said: Mapping[str, Any], kind: str) -> list[str]:
    found = said.get(kind)
    counted = found.get("hosts") if isinstance(found, dict) else None
    return list(counted) if isinstance(counted, dict) else []


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
