from __future__ import annotations

import pytest
import torch
from closeness import assert_close
from tasks.small_words import (
    SIZES,
    assert_every_parameter_learns,
    fit,
    no_default_device,
    random_words,
)
from torch import Tensor

from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.inputs import Sizes
from elmokit.tasks.reading.network import (
    ReadingNetwork,
    SpanScores,
    TrilinearSimilarity,
    shared_loss,
)

TEXTS, ASKED = (5, 1, 7), (3, 1, 2, 4)
WINDOWS, QUESTIONS = torch.tensor([0, 2, 1, 2]), torch.tensor([1, 0, 3, 2])


def reader(answer_lstms: bool = True, sizes: Sizes = SIZES, dropout: float = 0.0) -> ReadingNetwork:
    torch.manual_seed(3)
    return ReadingNetwork(
        sizes, NetworkConfig(hidden=6, dropout=dropout, answer_lstms=answer_lstms)
    )


def scores(network: ReadingNetwork, padding: int = 0) -> SpanScores:
    texts = random_words(TEXTS, padding=padding)
    asked = random_words(ASKED, padding=padding, seed=1)
    return network(texts, asked, WINDOWS, QUESTIONS)


def loss_of(found: SpanScores) -> Tensor:
    right = torch.zeros_like(found.mask)
    right[:, 0] = True
    rows = [0, 1, 2, 3]
    starts = shared_loss(found.start, right, found.mask, rows)
    return (starts + shared_loss(found.end, right, found.mask, rows)).mean()


@pytest.mark.parametrize("answer_lstms", [True, False])
def test_a_row_depends_on_its_text_and_its_question_alone(answer_lstms: bool) -> None:
    network = reader(answer_lstms)
    together = scores(network)

    for row, (window, question) in enumerate(
        zip(WINDOWS.tolist(), QUESTIONS.tolist(), strict=True)
    ):
        length = TEXTS[window]
        alone = network(
            random_words([length]),
            random_words([ASKED[question]], seed=1),
            *torch.zeros(2, 1).long(),
        )
        for one, other in zip(together[:2], alone[:2], strict=True):
            assert_close(one[row, :length], other[0])
    padded = scores(network, padding=3)
    for one, other in zip(together[:2], padded[:2], strict=True):
        assert_close(one[together.mask], other[padded.mask])


@pytest.mark.parametrize("answer_lstms", [True, False])
@pytest.mark.parametrize("sizes", [SIZES, Sizes(at_input=5, at_output=0)])
def test_everything_learns(answer_lstms: bool, sizes: Sizes) -> None:
    network = reader(answer_lstms, sizes)
    texts, asked = random_words(TEXTS, sizes), random_words(ASKED, sizes, seed=1)
    assert_every_parameter_learns(network, loss_of(network(texts, asked, WINDOWS, QUESTIONS)))


def test_a_batch_is_learnt_by_heart() -> None:
    network = reader(answer_lstms=False)
    assert fit(network, lambda: loss_of(scores(network)), steps=60, rate=0.02) < 0.1


def test_dropout_is_of_training_alone() -> None:
    network = reader(dropout=0.5)
    assert not torch.equal(scores(network).start, scores(network).start)
    network.eval()
    assert torch.equal(scores(network).start, scores(network).start)


def test_similarity_is_that_of_each_pair() -> None:
    torch.manual_seed(0)
    similarity = TrilinearSimilarity(4)
    one, other = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    assert similarity.of_one is not None

    found = similarity(one, other)

    for row, word, place in ((0, 0, 0), (1, 2, 4), (1, 0, 3)):
        a, b = one[row, word], other[row, place]
        weights = similarity.of_one, similarity.of_other, similarity.of_both
        expected = sum(w @ v for w, v in zip(weights, (a, b, a * b), strict=True))
        assert_close(found[row, word, place], torch.as_tensor(expected))


def test_no_word_attends_to_itself_and_a_lone_one_to_nothing() -> None:
    network = reader(answer_lstms=False)
    seen: list[Tensor] = []
    network.self_merge.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    network.self_encoder.register_forward_hook(lambda module, inputs, output: seen.append(output))

    scores(network)

    encoded, joined = seen
    size = encoded.shape[-1]
    attended = joined[..., size : 2 * size]
    assert_close(attended[2, 0], torch.zeros(size))  # the text of one word
    similar = network.self_similarity(encoded, encoded)[0, :5, :5]
    shares = similar.masked_fill(torch.eye(5, dtype=torch.bool), -torch.inf).softmax(-1)
    assert_close(attended[0, :5], shares @ encoded[0, :5])


def test_a_text_and_its_question_attend_to_each_other() -> None:
    """As the equations of the paper have it, word by word."""
    network = reader()
    size = len(network.similarity.of_both)
    texts, asked = torch.randn(2, 5, size), torch.randn(3, 4, size)
    rows = torch.tensor([0, 1, 0])
    masks = random_words((5, 3, 5)).mask, random_words((2, 4, 1)).mask

    found = network.attend_to_question(texts, rows, asked, *masks)

    for row, (window, length, count) in enumerate(((0, 5, 2), (1, 3, 4), (0, 5, 1))):
        text, question = texts[window, :length], asked[row, :count]
        similar = network.similarity(text[None], question[None])[0]
        nearest = torch.tensor([max(of_word) for of_word in similar.tolist()])
        summary = nearest.softmax(0) @ text
        for place, word in enumerate(text):
            attended = similar[place].softmax(0) @ question
            joined = torch.cat([word, attended, word * attended, summary * attended])
            assert_close(found[row, place], network.merge(joined).relu())


@pytest.mark.parametrize("answer_lstms", [True, False])
def test_scores_are_of_each_word_and_what_the_others_add_to_it(answer_lstms: bool) -> None:
    network = reader(answer_lstms, dropout=0.5).eval()
    found = scores(network)

    text, question = random_words([7]), random_words([3], seed=1)
    encoded = [
        torch.cat([network.encoder(words.at_input, words.mask), words.at_output], dim=-1)
        for words in (text, question)
        if words.at_output is not None
    ]
    rows = torch.arange(len(encoded[0]))
    read = network.attend_to_question(encoded[0], rows, encoded[1], text.mask, question.mask)
    starts = ends = read + network.attend_to_itself(read, text.mask)
    if network.start_lstm is not None and network.end_lstm is not None:
        starts = network.start_lstm(starts, text.mask)
        ends = network.end_lstm(torch.cat([ends, starts], dim=-1), text.mask)
    assert_close(found.start[1, :7], starts[0] @ network.start.weight[0])
    assert_close(found.end[1, :7], ends[0] @ network.end.weight[0])


@pytest.mark.parametrize("answer_lstms", [True, False])
def test_words_lack_the_same_dimensions_when_they_are_scored_in_training(
    answer_lstms: bool,
) -> None:
    network = reader(answer_lstms, dropout=0.5)
    lstms = network.start_lstm, network.end_lstm
    seen: list[Tensor] = []
    for layer in lstms if answer_lstms else (network.start, network.end):
        assert layer is not None
        layer.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    read = torch.ones(3, 4, network.merge.out_features)

    network.score(read, torch.ones(3, 4, dtype=torch.bool))

    assert len(seen) == 2
    for inputs in seen:
        left = inputs[..., : read.shape[-1]]
        assert set(left.flatten().tolist()) == {0.0, 2.0}
        assert torch.equal(left, left[:, :1].expand_as(left))


def test_everything_is_made_where_the_words_are(monkeypatch: pytest.MonkeyPatch) -> None:
    network = reader()
    texts, asked = random_words(TEXTS), random_words(ASKED, seed=1)
    with no_default_device(monkeypatch):
        found = network(texts, asked, WINDOWS, QUESTIONS)
    assert found.start.device.type == "cpu"
