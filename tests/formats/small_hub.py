"""The Hugging Face Hub's HTTP API, as far as uploads and downloads of models call it.

`with small_hub(folder) as url:` serves it; what is published is in `folder`, a folder for each
repository. Requests with the wrong token are refused where a repository's name begins "private".
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "c" * 40
TOKEN = "hf_small"
NAME = r"(?P<repo>[\w.-]+/[\w.-]+)"


class Handler(BaseHTTPRequestHandler):
    """Answers one request; large files arrive before the commit that names them."""

    routes = (
        ("POST", r"/api/repos/create", "create"),
        ("POST", r"/api/validate-yaml", "validate"),
        ("POST", rf"/api/models/{NAME}/preupload/main", "preupload"),
        ("POST", rf"/{NAME}\.git/info/lfs/objects/batch", "batch"),
        ("PUT", r"/large/(?P<oid>\w+)", "put"),
        ("POST", rf"/api/models/{NAME}/commit/main", "commit"),
        ("GET", rf"/api/models/{NAME}(/revision/(?P<revision>[^/]+))?", "describe"),
        ("GET", rf"/api/models/{NAME}/tree/\w+", "tree"),
        ("GET", rf"/{NAME}/resolve/(?P<revision>\w+)/(?P<file>.+)", "resolve"),
    )

    def __init__(self, folder: Path, *arguments: Any) -> None:
        self.folder = folder
        super().__init__(*arguments)

    def handle_any(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        method = "GET" if self.command == "HEAD" else self.command
        for wanted, pattern, name in self.routes:
            found = re.fullmatch(pattern, path)
            if wanted == method and found:
                repo = found.groupdict().get("repo", "")
                if "/private" in repo and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    return self.missing("RepoNotFound", 401)
                return getattr(self, name)(**found.groupdict())
        return self.missing("RepoNotFound")

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def answer(self, body: Any, status: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def missing(self, code: str, status: int = 404) -> None:
        self.answer({"error": code}, status, X_Error_Code=code)

    def log_message(self, *_: object) -> None: ...

    def create(self) -> None:
        asked = json.loads(self.body)
        name = f"{asked.get('organization') or 'ada'}/{asked['name']}"
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.answer({"url": f"http://{self.headers['Host']}/{name}", "name": name, "id": name})

    def validate(self) -> None:
        card = json.loads(self.body)["content"]
        ok = re.match(r"---\n(.+\n)+---\n", card)
        self.answer({"errors": [] if ok else [{"message": "no header"}], "warnings": []})

    def preupload(self, repo: str) -> None:
        files = [file["path"] for file in json.loads(self.body)["files"]]
        modes = {name: "lfs" if name.endswith(".safetensors") else "regular" for name in files}
        listed = [{"path": n, "uploadMode": m, "shouldIgnore": False} for n, m in modes.items()]
        self.answer({"files": listed})

    def batch(self, repo: str) -> None:
        objects = json.loads(self.body)["objects"]
        place = f"http://{self.headers['Host']}/large/"
        for one in objects:
            one["actions"] = {"upload": {"href": place + one["oid"]}}
        self.answer({"transfer": "basic", "objects": objects})

    def put(self, oid: str) -> None:
        assert hashlib.sha256(self.body).hexdigest() == oid
        (self.folder / oid).write_bytes(self.body)
        self.answer({})

    def commit(self, repo: str) -> None:
        for line in self.body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            target = self.folder / repo / value.get("path", "")
            if entry["key"] == "file":
                target.write_bytes(base64.b64decode(value["content"]))
            elif entry["key"] == "lfsFile":
                (self.folder / value["oid"]).rename(target)
        url = f"http://{self.headers['Host']}/{repo}/commit/{COMMIT}"
        self.answer({"success": True, "commitOid": COMMIT, "commitUrl": url})

    def describe(self, repo: str, revision: str | None) -> None:
        if not (self.folder / repo).is_dir():
            return self.missing("RepoNotFound")
        if revision not in (None, "main", "v1", COMMIT):
            return self.missing("RevisionNotFound")
        names = [{"rfilename": path.name} for path in (self.folder / repo).iterdir()]
        return self.answer({"id": repo, "sha": COMMIT, "private": False, "siblings": names})

    def tree(self, repo: str) -> None:
        files = sorted((self.folder / repo).iterdir())
        sizes = [(path.name, path.stat().st_size) for path in files]
        self.answer([{"type": "file", "path": n, "size": s, "oid": n} for n, s in sizes])

    def resolve(self, repo: str, revision: str, file: str) -> None:
        path = self.folder / repo / file
        if not path.is_file():
            return self.missing("EntryNotFound")
        etag = f'"{hashlib.sha256(path.read_bytes()).hexdigest()}"'
        return self.answer(path.read_bytes(), ETag=etag, X_Repo_Commit=COMMIT)


@contextmanager
def small_hub(folder: Path) -> Iterator[str]:
    """Serve the repositories of a folder; gives the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, folder))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
