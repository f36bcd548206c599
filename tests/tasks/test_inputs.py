"""Sentences to what a task network knows of their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_agree, assert_close
from helpers import error_of
from small_models import small_bilm, small_embedder

from elmokit.config import WordEncoderConfig
from elmokit.errors import ConfigError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.tasks.config import InputConfig
from elmokit.tasks.inputs import (
    BatchVectors,
    CharacterFeatures,
    Sizes,
    StaticLookup,
    TaskInputs,
    build_inputs,
)
from elmokit.tasks.layer_store import LayerStore
from elmokit.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

SENTENCES = [
    ("The", "river", "bank"),
    ("A", "강", "bank", "account", "."),
    ("bank",),
    ("the", "bank", "and", "The", "bank"),
]
ELMO_SIZE = 12
PLACES = ["input", "output", "both"]


def settings(**changes: Any) -> InputConfig:
    """Without dropout; the static vectors that go with it are given as they are."""
    needs_vectors = changes.get("elmo") in ("none", "output") and not changes.get("characters")
    static = {"static": "vectors.txt"} if needs_vectors else {}
    return InputConfig(**({"elmo_dropout": 0.0} | static | changes))


def static() -> StaticLookup:
    return StaticLookup(["the", "bank", "river"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def characters() -> CharacterFeatures:
    torch.manual_seed(1)
    return CharacterFeatures(filters=4)


def with_characters(
    config: InputConfig, embedder: Embedder | None, features: CharacterFeatures | None = None
) -> TaskInputs:
    """Inputs with static vectors, and with small features of characters."""
    inputs = build_inputs(config, embedder, static())
    inputs.characters = features or characters()
    return inputs


def filled_store(embedder: Embedder, **more: Any) -> LayerStore:
    store = LayerStore(embedder, **more)
    store.add(SENTENCES)
    return store


def unequal_mixes(inputs: TaskInputs) -> TaskInputs:
    """As if they had been trained: every weight another."""
    with torch.no_grad():
        for number, mix in enumerate(inputs.mixes):
            mix.weights.copy_(torch.linspace(-0.5, 1.0 + number, len(mix.weights)))
            mix.gamma.fill_(1.5 + number)
    return inputs


def loss_of(words: BatchVectors) -> torch.Tensor:
    """Depends on every number, each in another way."""
    loss = torch.zeros(())
    for vectors in (words.at_input, words.at_output):
        if vectors is not None:
            weights = torch.linspace(-1, 1, vectors.numel()).view_as(vectors)
            loss = loss + (weights * vectors).sum() + vectors.square().mean()
    return loss


def gradients(inputs: TaskInputs) -> list[torch.Tensor]:
    loss_of(inputs(SENTENCES)).backward()
    return [
        parameter.grad
        for mix in inputs.mixes
        for parameter in mix.parameters()
        if parameter.grad is not None
    ]


def assert_same(found: BatchVectors, expected: BatchVectors) -> None:
    assert_agree(found.at_input, expected.at_input)
    assert torch.equal(found.mask, expected.mask)
    assert (found.at_output is None) == (expected.at_output is None)
    if found.at_output is not None:
        assert_agree(found.at_output, expected.at_output)


@pytest.mark.parametrize(
    ("place", "sizes"),
    [
        ("none", Sizes(6, 0)),
        ("input", Sizes(6 + ELMO_SIZE, 0)),
        ("output", Sizes(6, ELMO_SIZE)),
        ("both", Sizes(6 + ELMO_SIZE, ELMO_SIZE)),
    ],
)
def test_everything_is_joined_and_sizes_tell_how_large_it_is(place: str, sizes: Sizes) -> None:
    embedder = None if place == "none" else small_embedder()
    inputs = with_characters(settings(elmo=place), embedder)
    words = inputs(SENTENCES)
    assert inputs.sizes == sizes
    assert len(inputs.mixes) == sizes.at_output // ELMO_SIZE + (sizes.at_input - 6) // ELMO_SIZE
    assert words.at_input.shape == (4, 5, sizes.at_input)
    assert words.mask.sum(1).tolist() == [3, 5, 1, 5]
    assert words.mask[2].tolist() == [True, False, False, False, False]
    assert words.at_input[~words.mask].eq(0).all()
    assert words.at_input[..., :2][words.mask].tolist()[:3] == [[1, 2], [5, 6], [3, 4]]
    assert_close(words.at_input[0, :3, 2:6], inputs.characters(SENTENCES[0]))
    if sizes.at_output:
        assert words.at_output.shape == (4, 5, ELMO_SIZE)
        assert words.at_output[~words.mask].eq(0).all()
    else:
        assert words.at_output is None


@pytest.mark.parametrize("per_direction", [False, True])
def test_a_trained_mix_gives_what_the_embedder_gives_with_it(per_direction: bool) -> None:
    embedder = small_embedder()
    config = settings(elmo="both", per_direction=per_direction)
    inputs = unequal_mixes(build_inputs(config, embedder, store=filled_store(embedder)))
    words = inputs(SENTENCES)
    for mix, vectors in zip(inputs.mixes, (words.at_input, words.at_output), strict=True):
        for row, expected in enumerate(embedder.embed(SENTENCES, layers=mix)):
            found = vectors[row, : len(expected)].detach().numpy()
            assert_close(found, expected)


@pytest.mark.parametrize(("layers", "number"), [("top", 2), (0, 0), (1, 1)])
@pytest.mark.parametrize("finetune", [False, True])
def test_one_layer_is_that_of_the_embedder_times_gamma(
    layers: str | int, number: int, finetune: bool
) -> None:
    embedder = small_embedder()
    inputs = build_inputs(settings(layers=layers, finetune_bilm=finetune), embedder)
    (mix,) = inputs.mixes
    with torch.no_grad():
        mix.gamma.fill_(2.0)
    vectors = inputs(SENTENCES).at_input
    for row, expected in enumerate(small_embedder().embed(SENTENCES, layers=number)):
        found = vectors[row, : len(expected)].detach().numpy()
        assert_close(found, 2 * expected)
    vectors.sum().backward()
    assert mix.gamma.grad.abs().sum() > 0
    assert mix.weights.grad is None


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("per_direction", [False, True])
def test_stored_computed_and_trained_layers_give_the_same_vectors_and_gradients(
    place: str, per_direction: bool, tmp_path: Path
) -> None:
    config = settings(elmo=place, per_direction=per_direction)
    embedder = small_embedder()
    on_disk = filled_store(embedder, folder=tmp_path)
    kinds = [
        build_inputs(config, embedder, static(), store=filled_store(embedder)),
        build_inputs(config, embedder, static(), store=on_disk),
        build_inputs(config, embedder, static()),
        build_inputs(
            settings(elmo=place, per_direction=per_direction, finetune_bilm=True),
            small_embedder(),
            static(),
        ),
    ]
    expected, *others = map(unequal_mixes, kinds)
    vectors, slopes = expected(SENTENCES), gradients(expected)
    assert len(slopes) == 2 * len(expected.mixes)
    assert all(slope.abs().sum() > 0 for slope in slopes)
    for other in others:
        assert_same(other(SENTENCES), vectors)
        for found, slope in zip(gradients(other), slopes, strict=True):
            assert_close(found, slope)


@pytest.mark.parametrize("stored", [True, False])
def test_a_frozen_bilm_is_no_part_of_the_module(stored: bool) -> None:
    embedder = small_embedder()
    store = filled_store(embedder) if stored else None
    inputs = build_inputs(settings(elmo="both"), embedder, static(), store=store)
    loss_of(inputs(SENTENCES)).backward()
    assert inputs.bilm is None
    assert not any("bilm" in name for name in inputs.state_dict())
    assert all(parameter.grad is None for parameter in embedder.bilm.parameters())


def test_fine_tuning_reaches_every_weight_but_the_softmax() -> None:
    embedder = Embedder(small_bilm(softmax_words=7), tokenizer="whitespace")
    inputs = build_inputs(settings(finetune_bilm=True), embedder)
    assert inputs.bilm is embedder.bilm
    loss_of(inputs(SENTENCES)).backward()
    for name, parameter in inputs.bilm.named_parameters():
        assert parameter.requires_grad is not name.startswith("softmax"), name
        if parameter.requires_grad:
            assert parameter.grad.abs().sum() > 0, name
    assert any(name.startswith("elmo.bilm.") for name in inputs.state_dict())


def test_fine_tuning_gives_the_gradients_of_the_model_read_word_by_word() -> None:
    inputs = build_inputs(settings(finetune_bilm=True), small_embedder())
    loss_of(inputs(SENTENCES)).backward()
    other = build_inputs(settings(finetune_bilm=True), small_embedder())
    rows = [other([sentence]).at_input[0] for sentence in SENTENCES]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    loss_of(BatchVectors(padded, None, torch.empty(0))).backward()
    for one, two in zip(inputs.bilm.parameters(), other.bilm.parameters(), strict=True):
        assert_close(one.grad, two.grad)


def test_a_model_that_reads_whole_words_is_fine_tuned_too() -> None:
    vocabulary = Vocabulary([BEGIN, END, UNKNOWN, "the", "river", "bank"])
    bilm = small_bilm(encoder=WordEncoderConfig(words=6, begin_id=1, end_id=2))
    embedder = Embedder(bilm, vocabulary=vocabulary, tokenizer="whitespace")
    frozen = build_inputs(settings(), embedder)(SENTENCES)
    trained = build_inputs(settings(finetune_bilm=True), embedder)(SENTENCES)
    assert_same(trained, frozen)


@pytest.mark.parametrize("finetune", [False, True])
def test_batch_mates_and_padding_change_nothing(finetune: bool) -> None:
    config = settings(elmo="both", finetune_bilm=finetune)
    inputs = unequal_mixes(with_characters(config, small_embedder()))
    batch = inputs([*SENTENCES, (), ("long",) * 30])
    for row, sentence in enumerate(SENTENCES):
        alone = inputs([sentence])
        size = len(sentence)
        assert alone.at_input.shape[1] == size
        for one, many in ((alone.at_input, batch.at_input), (alone.at_output, batch.at_output)):
            assert_close(many[row, :size], one[0])
            assert many[row, size:].eq(0).all()


def test_each_distinct_word_is_encoded_once() -> None:
    seen: list[str] = []

    class Watched(CharacterFeatures):
        def forward(self, words: Any) -> torch.Tensor:
            seen.extend(words)
            return super().forward(words)

    inputs = with_characters(settings(elmo="none"), None, Watched(filters=2))
    inputs(SENTENCES)
    assert sorted(seen) == sorted({word for sentence in SENTENCES for word in sentence})


def test_characters_are_made_where_the_config_wants_them() -> None:
    inputs = build_inputs(settings(elmo="none", characters=True))
    assert inputs.sizes == Sizes(128, 0)


def test_sentences_without_words_are_all_padding() -> None:
    inputs = with_characters(settings(elmo="both"), small_embedder())
    words = inputs([(), ()])
    assert words.at_input.shape == (2, 0, 6 + ELMO_SIZE)
    assert words.mask.shape == (2, 0)


def test_dropout_of_elmo_leaves_the_static_vectors_and_scales_the_rest() -> None:
    config = settings(elmo="both", elmo_dropout=0.5)
    embedder = small_embedder()
    inputs = build_inputs(config, embedder, static())
    plain = inputs.eval()(SENTENCES)
    dropped = inputs.train()(SENTENCES)
    assert torch.equal(dropped.at_input[..., :2], plain.at_input[..., :2])
    for some, every in (
        (dropped.at_input[..., 2:], plain.at_input[..., 2:]),
        (dropped.at_output, plain.at_output),
    ):
        kept = some.ne(0)
        assert 0.3 < (kept & every.ne(0)).sum() / every.ne(0).sum() < 0.7
        assert_close(some[kept], 2 * every[kept])
    assert not torch.equal(dropped.at_input[..., 2:].ne(0), dropped.at_output.ne(0))


def test_dropout_of_the_input_reaches_all_of_it_and_not_the_output() -> None:
    inputs = build_inputs(settings(elmo="both", dropout=0.5), small_embedder(), static())
    plain, dropped = inputs.eval()(SENTENCES), inputs.train()(SENTENCES)
    assert torch.equal(dropped.at_output, plain.at_output)
    for part in (slice(0, 2), slice(2, None)):
        was_there = plain.at_input[..., part].ne(0)
        assert dropped.at_input[..., part][was_there].eq(0).any()


def test_the_penalty_is_lambda_times_the_squared_weights_of_all_mixes() -> None:
    config = settings(elmo="both", mix_penalty=0.1)
    inputs = unequal_mixes(build_inputs(config, small_embedder()))
    expected = 0.1 * sum(mix.weights.square().sum().item() for mix in inputs.mixes)
    assert inputs.penalty().item() == pytest.approx(expected)
    inputs.penalty().backward()
    assert all(mix.weights.grad.abs().sum() > 0 for mix in inputs.mixes)


def test_state_is_saved_and_loaded() -> None:
    embedder = small_embedder()
    config = settings(elmo="both", per_direction=True)
    inputs = unequal_mixes(with_characters(config, embedder))
    again = with_characters(config, embedder, CharacterFeatures(filters=4))
    assert not torch.equal(again(SENTENCES).at_input, inputs(SENTENCES).at_input)
    again.load_state_dict(inputs.state_dict())
    assert torch.equal(again(SENTENCES).at_input, inputs(SENTENCES).at_input)
    assert torch.equal(again(SENTENCES).at_output, inputs(SENTENCES).at_output)


def test_fine_tuning_in_another_state_is_refused() -> None:
    with pytest.raises(InputError, match="state 'warm' cannot be trained"):
        build_inputs(settings(finetune_bilm=True), small_embedder(state="warm"))


def test_texts_and_empty_batches_are_refused() -> None:
    inputs = build_inputs(settings(), small_embedder())
    assert "not a list of words" in error_of(inputs, ["The river bank"], kind=InputError)
    assert "has no sentences" in error_of(inputs, [], kind=InputError)


def test_variational_dropout_leaves_out_the_same_dimensions_of_every_word() -> None:
    vectors = StaticLookup(["a", "b"], [[1.0] * 40, [2.0] * 40])
    inputs = build_inputs(settings(elmo="none", dropout=0.5, variational=True), static=vectors)
    torch.manual_seed(0)
    first, second = inputs([["a", "b"]]).at_input[0]
    assert 0 < (first == 0).sum() < 40
    assert torch.equal(first == 0, second == 0)


def test_layer_norm_reaches_every_mix_and_not_one_per_direction() -> None:
    with pytest.raises(ConfigError, match="layer_norm is of whole layers"):
        InputConfig(layer_norm=True, per_direction=True)
    inputs = build_inputs(InputConfig(elmo="both", layer_norm=True), small_embedder())
    assert [mix.layer_norm for mix in inputs.mixes] == [True, True]
