"""Scripts that a model has hardly seen: text in one of them is warned of."""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from elmokit.bundled import BUNDLED_MODELS
from elmokit.errors import ElmoWarning, FormatError
from elmokit.text.vocabulary import read_vocabulary

FEWEST_WORDS = 1000  # a vocabulary of fewer tells nothing of a language
HARDLY = 0.001  # the share of the letters of a vocabulary from which on their script has been seen
NOTICED = 0.2  # the share of the letters of a text from which on a script is more than a name in it
MODEL_OF_SCRIPT = {"HANGUL": "korean-small"}
NAMES = {"CJK": "Chinese characters"}
KINDS_OF_LETTER = ("LETTER", "SYLLABLE", "SMALL", "CAPITAL", "UNIFIED", "CHARACTER")


class SeenScripts:
    """Warns once of each script that text has and a model's words, read only then, have not."""

    def __init__(self, folder: Path, vocabulary: Path) -> None:
        self._source = folder, vocabulary
        # Every vocabulary has some Latin, and text that is all ASCII is not looked at.
        self._judged = {"", "LATIN"}

    def __reduce__(self) -> tuple[type[SeenScripts], tuple[Path, Path]]:
        return SeenScripts, self._source

    def note(self, new: Sequence[str], words: Iterable[str]) -> None:
        """Look at `words`, of which some are `new`."""
        text = "".join(new)
        if text.isascii() or scripts_of(text).keys() <= self._judged:
            return
        found = scripts_of("".join(words))
        for script in found.keys() - self._judged:
            if found[script] >= NOTICED * found.total():
                self._judged.add(script)
                if not self._has_seen(script):
                    self._warn(script)

    def _has_seen(self, script: str) -> bool:
        try:
            words = read_vocabulary(self._source[1]).words
        except FormatError:  # it was there when the model was read
            return True
        letters = scripts_of("".join(words))
        return len(words) < FEWEST_WORDS or letters[script] >= HARDLY * letters.total()

    def _warn(self, script: str) -> None:
        folder, other = self._source[0], MODEL_OF_SCRIPT.get(script)
        name = folder.name if folder.name in BUNDLED_MODELS else str(folder)
        advice = "use a model of its language, or pretrain one (elmo pretrain)"
        if other in BUNDLED_MODELS:
            advice = f"use {other} (--model {other})"
        warnings.warn(
            f"the model {name} has hardly seen {NAMES.get(script, script.title())}; {advice}",
            ElmoWarning,
            stacklevel=2,
        )


def scripts_of(text: str) -> Counter[str]:
    """How many letters a text has of each script.

    >>> scripts_of("River 강 2")
    Counter({'LATIN': 5, 'HANGUL': 1})
    """
    found: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if script := script_of(character):
            found[script] += count
    return found


@cache
def script_of(character: str) -> str:
    """The script of a letter; of all else, and of letters of no language, nothing."""
    script, _, rest = unicodedata.name(character, "").partition(" ")
    return script if character.isalpha() and rest.startswith(KINDS_OF_LETTER) else ""
