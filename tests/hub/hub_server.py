"""A stand-in for the Hugging Face hub: as much of its protocol as its own client needs to read and to commit."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_test"
LFS_SIZE = 4096  # files beyond this travel by the large-file protocol


class HubServer(ThreadingHTTPServer):
    """One dataset repository in memory."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.large: dict[str, bytes] = {}  # by SHA-256, uploaded and perhaps not yet committed
        self.lfs: dict[str, str] = {}  # path → SHA-256
        self.commits: list[str] = []
        self.requests: list[str] = []
        self.sent = 0
        self.pause = 0.0  # per 16 KiB of an answer

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        """Silence."""

    def answer(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("x-repo-commit", "0" * 40)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "HEAD":
            return
        for start in range(0, len(body), 16384):
            self.wfile.write(body[start : start + 16384])
            self.server.sent += len(body[start : start + 16384])
            time.sleep(self.server.pause)

    def answer_json(self, content: Any, status: int = 200) -> None:
        self.answer(status, json.dumps(content).encode())

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline().strip(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def may_write(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self.body()
        self.answer_json({"error": "no"}, 401)
        return False

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        path = urllib.parse.unquote(path)
        self.server.requests.append(f"{self.command} {path}")
        if "/tree/main" in path and path.startswith("/api/datasets/user/repo"):
            self.tree(path.partition("/tree/main")[2].strip("/"), "recursive=true" in query.lower())
        elif path.startswith("/datasets/user/repo/resolve/main/"):
            self.file(path.removeprefix("/datasets/user/repo/resolve/main/"))
        elif path.startswith("/api/datasets/user/repo"):
            self.answer_json({"id": "user/repo", "sha": "0" * 40, "siblings": []})
        else:
            self.answer(404, b'{"error": "Repository not found"}', X_Error_Code="RepoNotFound")

    do_HEAD = do_GET  # noqa: N815

    def tree(self, prefix: str, recursive: bool) -> None:
        start = f"{prefix}/" if prefix else ""
        inside = {name: data for name, data in self.server.files.items() if name.startswith(start)}
        if not inside:
            self.answer(404, b'{"error": "not there"}', X_Error_Code="EntryNotFound")
            return
        rows: dict[str, Any] = {}
        for name, data in sorted(inside.items()):
            rest = name.removeprefix(start)
            if "/" in rest and not recursive:
                folder = start + rest.split("/")[0]
                rows[folder] = {"type": "directory", "path": folder, "oid": "0" * 40, "size": 0}
                continue
            row: dict[str, Any] = {"type": "file", "path": name, "oid": blob_id(data), "size": len(data)}
            if name in self.server.lfs:
                row["lfs"] = {"oid": self.server.lfs[name], "size": len(data), "pointerSize": 130}
            rows[name] = row
        self.answer_json(list(rows.values()))

    def file(self, name: str) -> None:
        data = self.server.files.get(name)
        if data is None:
            self.answer(404, b"not there", "text/plain", X_Error_Code="EntryNotFound")
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:].split("-")[0])
        more = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        self.answer(206 if start else 200, data[start:], "application/octet-stream", ETag=f'"{blob_id(data)}"', **more)

    def do_POST(self) -> None:
        path = urllib.parse.unquote(self.path.partition("?")[0])
        self.server.requests.append(f"POST {path}")
        if not self.may_write():
            return
        body = self.body()
        if path == "/api/repos/create":
            self.answer_json({"url": f"{self.server.endpoint}/datasets/user/repo"})
        elif path == "/api/validate-yaml":
            self.answer_json({"errors": [], "warnings": []})
        elif path.endswith("/preupload/main"):
            rows = [self.preupload(row) for row in json.loads(body)["files"]]
            self.answer_json({"files": rows})
        elif path.endswith("/info/lfs/objects/batch"):
            objects = [self.lfs_object(row) for row in json.loads(body)["objects"]]
            self.answer_json({"transfer": "basic", "objects": objects})
        elif path.endswith("/commit/main"):
            self.commit([json.loads(line) for line in body.splitlines() if line.strip()])
        else:
            self.answer_json({"error": "unknown"}, 404)

    def preupload(self, row: dict[str, Any]) -> dict[str, Any]:
        mode = "lfs" if row["size"] > LFS_SIZE else "regular"
        have = self.server.files.get(row["path"])
        oid = None if have is None else self.server.lfs.get(row["path"]) or blob_id(have)
        return {"path": row["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    def lfs_object(self, row: dict[str, Any]) -> dict[str, Any]:
        if row["oid"] in self.server.large:
            return {"oid": row["oid"], "size": row["size"]}
        upload = {"href": f"{self.server.endpoint}/lfs/{row['oid']}"}
        return {"oid": row["oid"], "size": row["size"], "authenticated": True, "actions": {"upload": upload}}

    def do_PUT(self) -> None:
        data = self.body()
        self.server.requests.append(f"PUT {self.path}")
        oid = self.path.rpartition("/")[2]
        assert hashlib.sha256(data).hexdigest() == oid
        self.server.large[oid] = data
        self.answer(200, b"")

    def commit(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.server.commits.append(value["summary"])
            elif line["key"] == "file":
                self.server.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.server.files[value["path"]] = self.server.large[value["oid"]]
                self.server.lfs[value["path"]] = value["oid"]
        url = f"{self.server.endpoint}/datasets/user/repo/commit/{'0' * 40}"
        self.answer_json({"commitUrl": url, "commitOid": "0" * 40, "hookOutput": ""})


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def serving() -> Iterator[HubServer]:
    with HubServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
