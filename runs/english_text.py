"""The text of `runs/english-small.toml`: free English text that the held-out text does not share.

    python -m runs.english_text checkpoints/english-text

Wikipedia's shards before 035 share passages with the held-out text. An article of theirs is left
out if any twelve words in a row, in small letters and without punctuation, stand in the held-out
text of `../shared/data/pretrain-en` or in WikiText-2's valid text as well. The other shards were
made so, and are read where they are.
"""

from __future__ import annotations

import argparse
import lzma
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.io.files import write_atomically
from elmokit.io.text_files import find_files, read_chunks, text_of

SHARED = Path("../shared/data")
HELD_OUT = ("pretrain-en/*.heldout.txt.xz", "wikitext-2/wiki.[vt]*.tokens.gz")
TO_CLEAN = "pretrain-en/enwiki.train-0[0-2]?.txt.xz", "pretrain-en/enwiki.train-03[0-4].txt.xz"
IN_A_ROW = 12
FACTOR = np.uint64(0x9E3779B97F4A7C15)

Hashes = NDArray[np.uint64]


def main() -> None:
    """Write each shard without the articles that are left out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write the shards")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    held_out = np.unique(
        np.concatenate([rows_of(text) for file in shared(HELD_OUT) for text in documents(file)])
    )
    left_out = kept = 0
    for file in shared(TO_CLEAN):
        texts = list(documents(file))
        clean = [text for text in texts if not any_of(rows_of(text), held_out)]
        left_out, kept = left_out + len(texts) - len(clean), kept + len(clean)
        with write_atomically(folder / file.name) as temporary:
            temporary.write_bytes(lzma.compress("\n\n".join(clean).encode() + b"\n"))
        print(f"{file.name}: {len(clean):,} of {len(texts):,} articles", flush=True)
    print(f"{left_out:,} of {left_out + kept:,} articles are left out")


def shared(patterns: Iterable[str]) -> list[Path]:
    """The files that are meant."""
    return find_files([SHARED / pattern for pattern in patterns])


def documents(file: Path) -> Iterator[str]:
    """The texts of a file, which blank lines part."""
    text = "".join(map(text_of, read_chunks(file)))
    return (document for document in re.split(r"\n\s*\n", text) if document.strip())


def rows_of(text: str) -> Hashes:
    """A number for every twelve words in a row."""
    words = np.array(
        [hash(word) for word in re.findall("[a-z0-9]+", text.lower())], dtype=np.int64
    ).astype(np.uint64)
    rows = np.zeros(max(0, len(words) - IN_A_ROW + 1), dtype=np.uint64)
    for place in range(IN_A_ROW):
        rows = rows * FACTOR + words[place : place + len(rows)]
    return rows


def any_of(rows: Hashes, held_out: Hashes) -> bool:
    """Whether any row stands among those held out, which are sorted."""
    places = np.searchsorted(held_out, rows).clip(max=len(held_out) - 1)
    return bool((held_out[places] == rows).any())


if __name__ == "__main__":
    main()
