"""An object store in memory that takes little of the processor: what is measured with it is who uses it, and not the store.

It has what tables and announcements need of S3: objects, conditional writes, ranges, listings. It checks no signatures, and refuses
what it does not know. Each request waits for the latency of its port, whatever else is under way.
"""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import md5
from http import HTTPStatus
from itertools import islice
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_PAGE = 1000

Answer = tuple[int, Mapping[str, str], bytes]
_NONE: Answer = (404, {}, b"<Error><Code>NoSuchKey</Code></Error>")


@dataclass
class Bucket:
    """What is stored, by key (`bucket/name`), and how long requests took by port, in seconds, the latency included."""

    objects: dict[str, tuple[bytes, str, float]] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    took: dict[int, list[float]] = field(default_factory=dict)
    asked: dict[int, Counter[str]] = field(default_factory=dict)
    """By port, how many requests of which method there were for which folder of the warehouse."""

    async def listen(self, latency: float) -> int:
        """Serve on 127.0.0.1, each request `latency` seconds later than it could be; the port."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while await self._one(reader, writer, latency):
                    pass
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency: float) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        begun = time.perf_counter()
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("expect"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(int(headers.get("content-length") or 0))
        await asyncio.sleep(latency)
        status, more, content = self._answer(method, target, headers, body)
        more = {"content-length": str(len(content)), **more}
        said = "".join(f"{name}: {value}\r\n" for name, value in more.items())
        writer.write(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{said}\r\n".encode())
        writer.write(content if method != "HEAD" else b"")
        await writer.drain()
        port = writer.get_extra_info("sockname")[1]
        self.took.setdefault(port, []).append(time.perf_counter() - begun)
        self.asked.setdefault(port, Counter())[_kind(method, target)] += 1
        return True

    def _answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        key, query = unquote(parts.path).strip("/"), parse_qs(parts.query, keep_blank_values=True)
        if "/" not in key:
            if method == "POST" and "delete" in query:
                names = re.findall(r"<Key>(.*?)</Key>", body.decode())
                for name in names:
                    self._delete(f"{key}/{name}")
                told = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
                return 200, {}, f"<DeleteResult>{told}</DeleteResult>".encode()
            return self._list(key, query) if method == "GET" else (200, {}, b"")
        if method == "PUT" and not query and "x-amz-copy-source" not in headers:
            return self._put(key, headers, body)
        if method in ("GET", "HEAD"):
            return self._get(key, headers) if key in self.objects else _NONE
        if method == "DELETE":
            self._delete(key)
            return 204, {}, b""
        return 501, {}, b"<Error><Code>NotImplemented</Code></Error>"

    def _put(self, key: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if headers.get("if-none-match") == "*" and key in self.objects:
            return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        if key not in self.objects:
            insort(self.keys, key)
        tag = f'"{md5(body, usedforsecurity=False).hexdigest()}"'
        self.objects[key] = (body, tag, time.time())
        return 200, {"etag": tag}, b""

    def _get(self, key: str, headers: Mapping[str, str]) -> Answer:
        body, tag, at = self.objects[key]
        more = {"etag": tag, "last-modified": formatdate(at, usegmt=True)}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
        if asked is None:
            return 200, more, body
        first, last = asked.groups()
        start = int(first) if first else max(len(body) - int(last), 0)
        stop = min(int(last) + 1, len(body)) if first and last else len(body)
        return 206, {**more, "content-range": f"bytes {start}-{stop - 1}/{len(body)}"}, body[start:stop]

    def _delete(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def _list(self, bucket: str, query: Mapping[str, list[str]]) -> Answer:
        prefix, delimiter = (query.get(name, [""])[0] for name in ("prefix", "delimiter"))
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        most = int(query.get("max-keys", [str(_PAGE)])[0])
        start = max(bisect_left(self.keys, f"{bucket}/{prefix}"), bisect_right(self.keys, f"{bucket}/{after}"))
        folders, said, count, last = dict[str, None](), list[str](), 0, ""
        for key in islice(self.keys, start, None):
            name = key.removeprefix(f"{bucket}/")
            if not key.startswith(f"{bucket}/") or not name.startswith(prefix) or count >= most:
                break
            folder, mark, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if mark:
                folders[prefix + folder + mark] = None
            else:
                body, tag, at = self.objects[key]
                when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
                said.append(
                    f"<Contents><Key>{escape(name)}</Key><LastModified>{when}</LastModified><ETag>{tag}</ETag>"
                    f"<Size>{len(body)}</Size></Contents>"
                )
            count, last = count + 1, name
        more = count >= most
        said += [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders]
        said.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        said += [f"<NextContinuationToken>{escape(last)}</NextContinuationToken>"] if more else []
        return (
            200,
            {"content-type": "application/xml"},
            f"<ListBucketResult>{''.join(said)}</ListBucketResult>".encode(),
        )


def _kind(method: str, target: str) -> str:
    parts = urlsplit(target)
    listed = parse_qs(parts.query).get("prefix")
    folders = (listed[0] if listed else parts.path.partition("/warehouse/")[2]).removeprefix("warehouse/").split("/")
    return f"{'LIST' if listed else method} {'/'.join(folders[:2] if '.lance' in folders[0] else folders[:1])}"
