from __future__ import annotations

import subprocess
import sys

import pytest

TEXT = "Don't go (yet), \"Ann\" said; it's $3.50 at 5 p.m."
ALONE = f"""
import sys
from elmokit.text import treebank
treebank.import_alone()
words = treebank.word_tokenizer().tokenize({TEXT!r})
print(words == {{expected!r}})
print([name for name in sys.modules if name.split(".")[0] in ("nltk", "scipy", "sklearn")])
import nltk.tokenize
print(words == nltk.tokenize.NLTKWordTokenizer().tokenize({TEXT!r}))
print(nltk.tokenize.__file__ is not None and hasattr(nltk, "FreqDist"))
"""


def run(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_alone_the_tokenizer_splits_alike_and_leaves_no_trace() -> None:
    from nltk.tokenize import NLTKWordTokenizer

    expected = NLTKWordTokenizer().tokenize(TEXT)
    assert run(ALONE.format(expected=expected)) == ["True", "[]", "True", "True"]


@pytest.mark.parametrize(
    "change", ["treebank.WORDS = 'nltk.tokenize.nowhere'", "import nltk; nltk.here = True"]
)
def test_where_it_cannot_be_alone_all_of_nltk_is_imported(change: str) -> None:
    program = f"""
import sys
from elmokit.text import treebank
treebank.import_alone()
{change}
print(treebank.word_tokenizer().tokenize("I can't"))
print("nltk.stem" in sys.modules)
"""
    assert run(program) == ["['I', 'ca', \"n't\"]", "True"]


def test_a_process_that_did_not_ask_imports_nltk_whole() -> None:
    program = """
import sys
from elmokit.text import treebank
treebank.word_tokenizer()
print("nltk.stem" in sys.modules)
"""
    assert run(program) == ["True"]


def test_several_threads_may_come_first() -> None:
    program = """
from concurrent.futures import ThreadPoolExecutor
from elmokit.text import treebank
treebank.import_alone()
with ThreadPoolExecutor(8) as threads:
    found = list(threads.map(lambda _: treebank.word_tokenizer().tokenize("a b"), range(8)))
print(found == [["a", "b"]] * 8)
"""
    assert run(program) == ["True"]
