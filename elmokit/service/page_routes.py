"""The explorer page and the page of the API: files that were read when the service was made."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from elmokit.service.refusals import Refusal

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
CACHE = "no-cache"
"""Browsers ask each time whether it has changed, and mostly hear that it has not."""


class PageFile(NamedTuple):
    """A file of the page."""

    contents: bytes
    media_type: str
    tag: str  # changes when the contents do


def read_page() -> dict[str, PageFile]:
    """All files of the page, by name."""
    page = {}
    for file in (files("elmokit.service") / "page").iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in TYPES:
            contents = file.read_bytes()
            tag = f'"{sha256(contents).hexdigest()[:16]}"'
            page[file.name] = PageFile(contents, TYPES[suffix], tag)
    return page


def page_router() -> APIRouter:
    """Routes for the page; a client can only name what is in memory."""
    router = APIRouter(include_in_schema=False)
    page = read_page()

    def answer(request: Request, name: str) -> Response:
        if name not in page:
            raise Refusal(404, "there is no such page")
        file = page[name]
        headers = {"cache-control": CACHE, "etag": file.tag}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.contents, media_type=file.media_type, headers=headers)

    @router.get("/")
    async def explorer(request: Request) -> Response:
        return answer(request, "index.html")

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        return answer(request, "docs.html")

    @router.get("/page/{name}")
    async def page_file(request: Request, name: str) -> Response:
        return answer(request, name)

    return router
