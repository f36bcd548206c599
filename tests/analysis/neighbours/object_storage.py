"""A folder as a bucket: a server that speaks as much of S3 as reading takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

DATE = "2026-01-01T00:00:00.000Z"
LAST_MODIFIED = "Thu, 01 Jan 2026 00:00:00 GMT"


@contextmanager
def served(folder: Path, bucket: str) -> Iterator[str]:
    """Serve the files of a folder as those of a bucket; gives the address of the server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            key = unquote(address.path).removeprefix(f"/{bucket}").lstrip("/")
            if not key:
                self.answer(200, listing(folder, parse_qs(address.query)), {})
            elif (folder / key).is_file():
                self.send_file((folder / key).read_bytes())
            else:
                self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {})

        def send_file(self, contents: bytes) -> None:
            wanted = self.headers.get("Range")
            if wanted is None:
                self.answer(200, contents, {})
                return
            first, last = wanted.removeprefix("bytes=").split("-")
            start = int(first) if first else len(contents) - int(last)
            end = min(int(last) + 1 if first and last else len(contents), len(contents))
            place = {"Content-Range": f"bytes {start}-{end - 1}/{len(contents)}"}
            self.answer(206, contents[start:end], place)

        def answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Last-Modified", LAST_MODIFIED)
            self.send_header("ETag", '"1"')
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *values: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def listing(folder: Path, query: dict[str, list[str]]) -> bytes:
    """The answer to ListObjectsV2, all keys at once."""
    [prefix], [delimiter] = query.get("prefix", [""]), query.get("delimiter", [""])
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    keys = {str(path.relative_to(folder)): path.stat().st_size for path in found}
    files, folders = "", dict[str, None]()
    for key, size in keys.items():
        rest = key.removeprefix(prefix)
        if not key.startswith(prefix):
            continue
        if delimiter and delimiter in rest:
            folders[prefix + rest.partition(delimiter)[0] + delimiter] = None
            continue
        files += (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{DATE}</LastModified>"
            f'<ETag>"1"</ETag><Size>{size}</Size></Contents>'
        )
    prefixes = "".join(
        f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders
    )
    found_all = f"<IsTruncated>false</IsTruncated>{files}{prefixes}"
    return f"<ListBucketResult>{found_all}</ListBucketResult>".encode()
