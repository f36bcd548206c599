"""Which words of a text are asked about: those that are named, or what a tagger calls verbs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from elmokit.errors import ElmoWarning, InputError
from elmokit.tasks.items import Item
from elmokit.tasks.saved_task import TrainedTask
from elmokit.tasks.srl.propositions import WithPredicates
from elmokit.text.tokenizer import Tokenizer

OF_VERBS = "V"
"""What the tags of verbs begin with: VERB, VBZ, VVFIN."""


def about_words(items: Sequence[Item], words: Sequence[str], tokenizer: Tokenizer) -> list[Item]:
    """Items whose predicates are some words, wherever they occur, unless they have their own.

    Args:
        items: Texts, or lists of words.
        words: The predicates; those that occur nowhere are named in a warning.
        tokenizer: That of the task which is asked.
    """
    named = [word.strip() for word in words if word.strip()]
    if not named:
        raise InputError("--predicates has no words; name some with commas between them")
    sentences = chain.from_iterable(_sentences(item.asked, tokenizer) for item in items)
    there = {str(word).lower() for sentence in sentences for word in sentence}
    for word in named:
        if word.lower() not in there:
            warnings.warn(f"the predicate {word!r} occurs nowhere", ElmoWarning, stacklevel=2)
    return [_about(item, named) for item in items]


def about_verbs(items: Sequence[Item], tagger: TrainedTask, tokenizer: Tokenizer) -> list[Item]:
    """Items whose predicates are what a tagger takes for verbs, unless they have their own.

    Args:
        items: Texts, or lists of words.
        tagger: A task that has learnt parts of speech.
        tokenizer: That of the task which is asked: numbers of words are by its own.
    """
    check_knows_verbs(tagger)
    sentences = [_sentences(item.asked, tokenizer) for item in items]
    places = [item.place for item, some in zip(items, sentences, strict=True) for _ in some]
    tagged = tagger.predictions(chain.from_iterable(sentences), places=places)
    found = []
    for item, some in zip(items, sentences, strict=True):
        answers = [each.to_dict() for each in islice(tagged, len(some))]
        tags = chain.from_iterable(answer["tags"] for answer in answers)
        verbs = [number for number, tag in enumerate(tags) if tag.startswith(OF_VERBS)]
        found.append(_about(item, verbs))
    return found


def check_knows_verbs(tagger: TrainedTask) -> None:
    """Refuse what does not tag verbs."""
    if tagger.config.kind != "tags" or not any(
        name.startswith(OF_VERBS) for name in tagger.labels.names
    ):
        raise InputError(
            f"the tagger is a task of kind {tagger.config.kind!r} without a tag for verbs (VERB, "
            "VB, …); train one: elmo task train pos"
        )


def _about(item: Item, predicates: Sequence[int | str]) -> Item:
    if isinstance(item.asked, WithPredicates):
        return item
    return item._replace(asked=WithPredicates(item.asked, predicates))


def _sentences(asked: Any, tokenizer: Tokenizer) -> list[Any]:
    """The sentences of a text as words; words as they are; none where predicates are given."""
    if isinstance(asked, WithPredicates):
        return []
    if isinstance(asked, str):
        return [[token.text for token in some] for some in tokenizer.sentences(asked)]
    return [asked]
