"""NLTK's word tokenizer; where nobody else in the process needs NLTK, without the rest of it.

`import nltk` imports whatever NLTK can use, SciPy, scikit-learn and pandas among it where they are
installed: seconds, for a few regular expressions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

NLTK = "nltk"
WORDS = "nltk.tokenize.destructive"

_alone = False
_importing = Lock()


def import_alone() -> None:
    """Let this process import no more of NLTK than the tokenizer.

    For programs of which all imports are known: while it is imported, `nltk` is not whole for
    other threads.
    """
    global _alone
    _alone = True


@cache
def word_tokenizer() -> Any:
    """NLTK's tokenizer, imported when first needed."""
    with _importing:  # a second thread would find half of NLTK
        return _import_tokenizer()()


def _import_tokenizer() -> Any:
    if _alone and NLTK not in sys.modules:
        try:
            with _only_named_packages():
                return import_module(WORDS).NLTKWordTokenizer
        except (ImportError, AttributeError):  # a version that is laid out otherwise
            pass
    from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

    return NLTKWordTokenizer


@contextmanager
def _only_named_packages() -> Iterator[None]:
    """Import modules of NLTK as if its packages were empty; no trace of them stays."""
    spec = find_spec(NLTK)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(NLTK)
    [folder, *_] = spec.submodule_search_locations
    try:
        for name in (NLTK, "nltk.tokenize"):
            package = ModuleType(name)
            package.__path__ = [str(Path(folder, *name.split(".")[1:]))]
            sys.modules[name] = package
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == NLTK]:
            del sys.modules[name]
