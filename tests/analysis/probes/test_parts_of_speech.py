from __future__ import annotations

import numpy as np
import pytest
from analysis.probes.small_texts import no_step
from closeness import assert_agree
from helpers import Heard
from small_models import small_embedder
from static.small_vectors import small_vectors

from elmokit.analysis.probes.files import TaggedWords
from elmokit.analysis.probes.probes import (
    BASELINE,
    TaggedText,
    baseline_scores,
    embed_words,
    probe_parts_of_speech,
)


def sentence(first: str) -> TaggedWords:
    """The tag of x is that of the word before it: one that sees x alone can only guess."""
    return TaggedWords((first, "x"), (f"{first}-itself", f"after-{first}"))


SENTENCES = [sentence("aa" if number % 2 else "b") for number in range(400)]
TEXT = TaggedText(SENTENCES, SENTENCES[:50], SENTENCES[:100])


def test_a_tag_that_context_decides_is_known_to_the_contextual_layers_only():
    told = Heard()
    report = probe_parts_of_speech([small_vectors(), small_embedder()], TEXT, told)
    assert list(report.scores) == [
        BASELINE, "static vectors (static)", "layer 0 (static)", "layer 1", "layer 2 (top)",
        "average",
    ]  # fmt: skip
    tests = [test for _, test in report.scores.values()]
    assert tests[0] == tests[2] == 0.75
    assert tests[3] == 1.0
    # Neither word has a static vector: only the most frequent tag is left.
    assert tests[1] == pytest.approx(0.25, abs=0.01)
    assert report.layers == ("layer 0 (static)", "layer 1", "layer 2 (top)")
    assert report.counts == {"words": (100, 200)}
    assert told.stages == {
        "embedding": [(done, 1100) for done in (0, 1000, 1100)],
        "classifiers": [(done, 15) for done in range(16)],
    }


def test_words_are_embedded_in_their_order():
    embedder = small_embedder()
    found = embed_words(embedder, TEXT.dev, no_step)
    assert_agree(found, np.concatenate(embedder.embed_layers([one.words for one in TEXT.dev]), 1))
    assert found.dtype == np.float16


def test_a_new_word_has_the_most_frequent_tag_of_all():
    train = [TaggedWords(("a", "b", "a", "a", "c"), ("X", "Y", "Z", "Z", "Y"))]
    train += [TaggedWords(("d",), ("Y",))]
    test = [TaggedWords(("b", "a", "new", "a"), ("Y", "Z", "Y", "X"))]
    assert baseline_scores(TaggedText(train, train, test)) == (5 / 6, 3 / 4)


def test_a_tag_that_was_not_learnt_is_wrong():
    train = [TaggedWords(("a",), ("X",)), TaggedWords(("b",), ("Y",))] * 20
    text = TaggedText(train, train, [TaggedWords(("a", "b"), ("X", "NEW"))])
    report = probe_parts_of_speech([small_embedder()], text)
    assert report.scores["layer 0 (static)"] == (1.0, 0.5)
