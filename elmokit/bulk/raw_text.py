"""Whether a text that is read as tokenized looks like one that is not."""

from __future__ import annotations

import re
import warnings

from elmokit.errors import ElmoWarning

ROWS_LOOKED_AT = 20
RAW_SHARE = 0.25
# A tokenized text may have Yahoo! or U.S. here and there, but no sentence that ends in one.
# Anchored where a word begins: tried from each of its letters, a long one would take for ever.
GLUED = re.compile(r"(?<!\S)(?:\S*[^\W\d_][,!?](?=\s|$)|\S*[^\W\d_]{2}\.(?=\s*$))")


class RawTextHint:
    """Looks at the first texts of an input, and warns once if many of them look raw.

    Args:
        name: What the warning calls the input.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._looked_at = 0
        self._glued: list[str] = []
        self._decided = False

    def look_at(self, value: str | list[str]) -> None:
        """Look at one of the first texts; words in a list, and blank texts, tell nothing."""
        if self._decided or isinstance(value, list) or not value.strip():
            return
        self._looked_at += 1
        found = GLUED.search(value)
        if found:
            self._glued.append(found[0])
        if self._looked_at == ROWS_LOOKED_AT:
            self.decide()

    def decide(self) -> None:
        """Warn, unless that was decided before."""
        if not self._decided and self._glued and len(self._glued) >= self._looked_at * RAW_SHARE:
            warnings.warn(
                f"{self._name}: looks like raw text, and {self._glued[0][-40:]!r} is read as one "
                "word; split it into words with --tokenize, or into sentences too with --split",
                ElmoWarning,
                stacklevel=2,
            )
        self._decided = True
