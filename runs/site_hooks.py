"""Hooks of MkDocs: the navigation, and the documents outside docs/ that are pages of the site.

Each section's index.md lists its pages: its `##` headings are the groups; the first link of a line
is a page, and so is each after a dot (·). Links are written as they work in the repository; here
they become those of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("tutorials", "how-to", "reference", "background", "ko")
OUTSIDE = {
    "ARCHITECTURE.md": "background/architecture.md",
    "CHANGELOG.md": "background/changelog.md",
    "CONTRIBUTING.md": "background/contributing.md",
    "SECURITY.md": "background/security.md",
    "benchmarks/README.md": "background/benchmarks.md",
    "elmokit/bundled/english-small/README.md": "background/english-small.md",
    "elmokit/bundled/korean-small/README.md": "background/korean-small.md",
}
"""Documents of the repository, and where the site has them."""
SOURCES = {page: source for source, page in OUTSIDE.items()}
LISTED = re.compile(r"(?:^- |^\| | · )\[([^\]]+)\]\(([^)#]+\.md)\)")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Make the navigation out of what each section lists."""
    docs = Path(config.docs_dir)
    config.nav = [
        {"elmokit": "index.md"},
        *(section(docs, f"{name}/index.md") for name in SECTIONS),
    ]
    return config


def section(docs: Path, index: str) -> dict[str, list[Any]]:
    """A section of the navigation: its index, and its pages in their groups."""
    title, *lines = (docs / index).read_text(encoding="utf-8").splitlines()
    entries: list[Any] = [index]
    groups: dict[str, list[Any]] = {"": entries}
    heading = ""
    for line in lines:
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        for name, link in LISTED.findall(line):
            groups.setdefault(heading, []).append({name: page_of(index, link)})
    entries += [{heading: pages} for heading, pages in groups.items() if heading]
    return {title.removeprefix("# "): entries}


def page_of(page: str, link: str) -> str | None:
    """The page that a link of a page leads to; None where the site does not have it."""
    source = SOURCES.get(page, f"docs/{page}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if target in OUTSIDE:
        return OUTSIDE[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else None


def on_files(files: Any, config: Any) -> Any:
    """Add the documents outside docs/."""
    from mkdocs.structure.files import File  # the tests read this module without MkDocs

    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of the repository into those of the site, but for the code in fences."""
    here = page.file.src_uri

    def turned(link: re.Match[str]) -> str:
        picture, text, target, anchor = link.groups(default="")
        if not target or ":" in target:
            return link[0]
        found = page_of(here, target)
        if found is None:  # a file of the repository, which is not on the site
            return text
        return f"{picture}[{text}]({posixpath.relpath(found, posixpath.dirname(here))}{anchor})"

    fences = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if part.lstrip().startswith("```") else LINK.sub(turned, part) for part in fences
    )


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Name the language of a Korean page."""
    korean = page.file.src_uri.startswith("ko/")
    return output.replace('<html lang="en"', '<html lang="ko"', 1) if korean else output
