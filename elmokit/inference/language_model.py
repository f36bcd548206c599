"""Load a model, ask it for words: their probability, the next one, the missing one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmokit.config import ModelConfig, check_choice, check_size
from elmokit.errors import InputError
from elmokit.formats.find import Location, read_model
from elmokit.inference.predictions import (
    NOT_OFFERED,
    Fit,
    Gap,
    LogProbabilities,
    Perplexity,
    PerplexitySums,
    RankedWord,
    SentenceScore,
    WordProbability,
    best,
    check_candidates,
    check_temperature,
    draw,
    find_place,
    log_prior,
    without,
)
from elmokit.inference.token_vectors import (
    check_device,
    check_word_input,
    encode_words,
    max_characters,
)
from elmokit.io.fetch import Progress
from elmokit.model.bilm import BiLM
from elmokit.model.lstm import LSTMStack, LSTMState
from elmokit.model.packing import pack
from elmokit.model.softmax import AdaptiveSoftmax, Softmax
from elmokit.model.weights import track_writes
from elmokit.text.batching import batch_by_length, windows
from elmokit.text.characters import Sentence, UnusualWords, check_sentence, check_sentences, short
from elmokit.text.tokenizer import Tokenizer, load_tokenizer
from elmokit.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary


class DistinctWords(NamedTuple):
    """The distinct words of some sentences, markers among them."""

    rows: dict[str, int]
    vectors: Tensor  # (distinct words, token_size)


@dataclass(frozen=True)
class Direction:
    """One half of a biLM that has a softmax, and the words it predicts.

    Forward it reads `<S> w1 … wn` and predicts `w1 … wn </S>`, backward it reads `</S> wn … w1` and
    predicts `wn … w1 <S>`: it never reads the marker that it predicts last.
    """

    bilm: BiLM
    vocabulary: Vocabulary
    name: Literal["forward", "backward"]

    @property
    def opening(self) -> str:
        """The marker that it reads first."""
        return BEGIN if self.name == "forward" else END

    @property
    def closing(self) -> str:
        """The marker that it predicts last."""
        return END if self.name == "forward" else BEGIN

    @property
    def lstm(self) -> LSTMStack:
        """Its stack."""
        return self.bilm.forward_lstm if self.name == "forward" else self.bilm.backward_lstm

    @property
    def softmax(self) -> Softmax | AdaptiveSoftmax:
        """What both directions share."""
        assert self.bilm.softmax is not None  # a LanguageModel refuses a model without
        return self.bilm.softmax

    def ordered(self, words: Sentence) -> list[str]:
        """The words of a sentence in the order of this direction; the order back, too."""
        return list(words) if self.name == "forward" else list(words)[::-1]

    @torch.inference_mode()
    def log_likelihoods(
        self,
        streams: Sequence[Sequence[Sentence]],
        words: DistinctWords,
        state: LSTMState | None = None,
    ) -> tuple[list[NDArray[np.float32]], LSTMState]:
        """Log probability of each target of some streams of sentences, and the state after them.

        For each stream an array (steps,): for each sentence in turn its words, in the order of
        this direction, and the closing marker.
        """
        inputs = [self._inputs(stream, words) for stream in streams]
        targets = [self._targets(stream) for stream in streams]
        lengths = [len(stream) for stream in inputs]
        device = words.vectors.device
        packing = pack(torch.tensor(lengths), max(lengths), device)

        def packed(ids: list[Tensor]) -> Tensor:
            return pad_sequence(ids, batch_first=True).to(device).flatten()[packing.forward]

        outputs, after = self._outputs(words.vectors[packed(inputs)], packing.step_sizes, state)
        values = self.softmax.log_likelihood(outputs, packed(targets))
        padded = values.new_zeros(len(streams) * max(lengths))
        padded[packing.forward] = values
        rows = padded.view(len(streams), -1).float().cpu().numpy()
        return [row[:length] for row, length in zip(rows, lengths, strict=True)], after

    def after(self, words: Sentence) -> LogProbabilities:
        """Every word's log probability (words,) once a sentence has been read so far."""
        return self.read_on([self.opening, *self.ordered(words)])[0]

    @torch.inference_mode()
    def read_on(
        self, words: Sequence[str], state: LSTMState | None = None
    ) -> tuple[LogProbabilities, LSTMState]:
        """Read words one after the other: every word's log probability (words,), and the state."""
        vectors = encode_words(self.bilm, self.vocabulary, words)
        outputs, after = self._outputs(vectors, [1] * len(words), state)
        values = self.softmax(outputs[-1:])[0].float().cpu().numpy().astype(np.float64)
        if np.isnan(values).any():
            raise InputError("the model gives NaN for probabilities; its weights are damaged")
        return values, after

    def _outputs(
        self, token_vectors: Tensor, step_sizes: list[int], state: LSTMState | None
    ) -> tuple[Tensor, LSTMState]:
        """The top layer (tokens, token_size) over packed tokens, and the state after them."""
        if state is None:
            state = self.lstm.zero_state(step_sizes[0], token_vectors)
        layers, after = self.lstm(token_vectors, step_sizes, state)
        return layers[-1], after

    def _inputs(self, stream: Sequence[Sentence], words: DistinctWords) -> Tensor:
        """Which row of `words` each step of a stream reads: (steps,)."""
        read = ((self.opening, *self.ordered(sentence)) for sentence in stream)
        return torch.tensor([words.rows[word] for sentence in read for word in sentence])

    def _targets(self, stream: Sequence[Sentence]) -> Tensor:
        """The id of what each step of a stream predicts: (steps,)."""
        closing = self.vocabulary.id_of(self.closing)
        ids: list[int] = []
        for sentence in stream:
            ids += [target_id(self.vocabulary, word) for word in self.ordered(sentence)]
            ids.append(closing)
        return torch.tensor(ids)


def target_id(vocabulary: Vocabulary, word: str) -> int:
    """The softmax's id for a word of a sentence; a marker there is a word like any unknown."""
    return vocabulary.id_of(UNKNOWN if word in (BEGIN, END) else word)


@torch.inference_mode()
def encode_distinct(
    bilm: BiLM, vocabulary: Vocabulary, sentences: Sequence[Sentence]
) -> DistinctWords:
    """Encode each distinct word of some sentences once."""
    # In the order of the text, since a set's order changes from run to run.
    words = dict.fromkeys((BEGIN, END, *(word for sentence in sentences for word in sentence)))
    rows = {word: row for row, word in enumerate(words)}
    return DistinctWords(rows, encode_words(bilm, vocabulary, list(rows)))


StartState = Literal["zero", "carry"]

SENTENCES_PER_BATCH = 256
TOKENS_PER_BATCH = 8192
TOKENS_PER_WINDOW = {"zero": 65536, "carry": 4096}
"""How much of a stream is read at once: each distinct word is encoded once per window."""
TOKENS_OF_FIRST_WINDOW = 128


class LanguageModel:
    """Probabilities of words from both directions of a biLM. Calls from several threads are safe.

    Every call computes with the weights as they are then, so a model may be measured in the middle
    of its training.

    Args:
        bilm: The language model, with its softmax. It is put on `device` if one is given.
        vocabulary: The words of the softmax, `<S>` and `</S>` among them.
        tokenizer: What `split` and `find_place` split raw text with; a name or a tokenizer.
        device: Where to compute; the model's own device if None.
    """

    def __init__(
        self,
        bilm: BiLM,
        vocabulary: Vocabulary | None,
        *,
        tokenizer: str | Tokenizer = "default",
        device: str | torch.device | None = None,
    ) -> None:
        self.vocabulary = check_vocabulary(bilm.config, vocabulary)
        self.bilm = bilm.to(check_device(device)) if device is not None else bilm
        track_writes(bilm)
        self.tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self._forward = Direction(bilm, self.vocabulary, "forward")
        self._backward = Direction(bilm, self.vocabulary, "backward")
        self._unusual = UnusualWords(max_characters(bilm.config))

    @classmethod
    def load(
        cls,
        model: Location | None = None,
        weights: Location | None = None,
        *,
        vocabulary: Location | None = None,
        tokenizer: str | Tokenizer | None = None,
        progress: Progress | None = None,
        device: str | torch.device | None = None,
    ) -> LanguageModel:
        """Load the bundled English model, a model folder, or an AllenNLP pair with its words.

        `vocabulary` and `progress` are those of `formats.models.read_model`, the rest those of the
        constructor. The tokenizer is the one the model was trained with unless given.
        """
        saved = read_model(model, weights, vocabulary=vocabulary, progress=progress)
        check_vocabulary(saved.config, saved.vocabulary, "" if model is None else f"{model}: ")
        return cls(
            BiLM.from_weights(saved.config, saved.weights),
            saved.vocabulary,
            tokenizer=tokenizer if tokenizer is not None else saved.tokenizer,
            device=device,
        )

    def __repr__(self) -> str:
        return f"LanguageModel({len(self.vocabulary)} words)"

    def split(self, text: str) -> list[list[str]]:
        """Split raw text into sentences of words, with the tokenizer the model was trained with."""
        check_text(text)
        return [[token.text for token in sentence] for sentence in self.tokenizer.sentences(text)]

    def find_place(self, text: str, *, previous: bool = False, missing: bool = False) -> Gap:
        """Where a raw sentence lacks a word, `___` or its end; see `prediction.find_place`."""
        check_text(text)
        return find_place(text, self.tokenizer, previous=previous, missing=missing)

    def score(
        self, sentences: Sequence[Sentence], state: StartState = "zero"
    ) -> list[SentenceScore]:
        """Log probability of every word of some sentences, and of their markers.

        In state `zero` each sentence stands alone. In state `carry` they are one text: both
        directions take each sentence in turn, with what they remember of those before. A word
        outside the vocabulary is read as it is written, and has the value of `<UNK>`.
        """
        check_sentences(sentences)
        return list(self.score_stream(sentences, state))

    def score_stream(
        self, sentences: Iterable[Sentence], state: StartState = "zero"
    ) -> Iterator[SentenceScore]:
        """Score any number of sentences in constant memory, in order."""
        check_choice("state", state, get_args(StartState))
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        tokens = TOKENS_PER_WINDOW[state]
        score_windows = self._score_apart if state == "zero" else self._score_carried
        return score_windows(windows(sentences, tokens, tokens, TOKENS_OF_FIRST_WINDOW))

    def perplexity(
        self,
        sentences: Iterable[Sentence],
        state: StartState = "zero",
        progress: Progress | None = None,
    ) -> Perplexity:
        """Perplexity of any number of sentences, per direction and of both, in constant memory.

        Every word and one marker per sentence and direction is a target, `<UNK>` too. Numbers of
        models with different vocabularies cannot be compared. `progress` is told how many
        sentences are done.
        """
        total = len(sentences) if isinstance(sentences, Sized) else None
        sums = PerplexitySums()
        for score in self.score_stream(sentences, state):
            sums.add(score)
            if progress is not None:
                progress(sums.sentences, total)
        return sums.perplexity(state)

    def next_words(self, words: Sentence, top: int = 10) -> list[WordProbability]:
        """The `top` likeliest words after those that begin a sentence.

        `</S>` among them is the end of the sentence. `<UNK>` is never offered, so the
        probabilities of all words add up to less than 1.
        """
        return self._likeliest(self._forward, words, top)

    def previous_words(self, words: Sentence, top: int = 10) -> list[WordProbability]:
        """The `top` likeliest words before those that end a sentence; `<S>` is its beginning."""
        return self._likeliest(self._backward, words, top)

    def missing_words(self, before: Sentence, after: Sentence, top: int = 10) -> list[RankedWord]:
        """The `top` words that fit best between the words of a sentence.

        Ranked by log p(word | before) + log p(word | after) - log p(word): each direction has
        counted in how frequent the word is, so once is subtracted. log p(word) comes from the
        vocabulary's counts. Where it has none every word is taken as equally frequent, and
        `log_prior` is None. `probability` is the score's share over all words.
        """
        check_size("top", top)
        fit = self._fit(before, after)
        scores = fit.scores()
        return fit.rows(best(scores, top), scores)

    def rank(
        self,
        before: Sentence | None,
        candidates: Sequence[str],
        after: Sentence | None = None,
    ) -> list[RankedWord]:
        """Order candidates by how well they fit a place, the best first.

        With words on both sides as `missing_words` does. None for one side: that direction is left
        out, and the score is the other's log probability. An empty list is the sentence's border.
        Candidates outside the vocabulary come last, with `known` False.
        """
        check_candidates(candidates)
        fit = self._fit(before, after)
        scores = fit.scores()
        words = [word for word in candidates if word in self.vocabulary and word not in NOT_OFFERED]
        ids = sorted((self.vocabulary.id_of(word) for word in words), key=lambda n: -scores[n])
        unknown = [
            RankedWord(word, -math.inf, 0.0, None, None, None, known=False)
            for word in candidates
            if word not in words
        ]
        return [*fit.rows(ids, scores), *unknown]

    def sample(
        self,
        before: Sentence = (),
        words: int = 20,
        temperature: float = 1.0,
        seed: int | None = None,
        top: int | None = None,
        *,
        after: Sentence | None = None,
    ) -> list[str]:
        """Draw up to `words` words that continue a sentence, until it ends.

        Args:
            before: The words that begin the sentence.
            words: The most words to draw.
            temperature: Below 1 likely words become likelier, above 1 less so; 0 takes the
                likeliest each time.
            seed: The same seed draws the same words.
            top: Draw among this many likeliest words only.
            after: Words that end the sentence; given these, the words before them are drawn, from
                the last to the first.
        """
        check_size("words", words)
        check_temperature(temperature)
        if top is not None:
            check_size("top", top)
        if seed is not None:
            check_size("seed", seed, least=0)
        if after is not None and before:
            raise InputError("both before and after are given; sampling continues from one of them")
        direction = self._forward if after is None else self._backward
        random = np.random.default_rng(seed)
        context = before if after is None else after
        self._check(context)
        read = [direction.opening, *direction.ordered(context)]
        drawn: list[str] = []
        state: LSTMState | None = None
        while len(drawn) < words:
            log_probabilities, state = direction.read_on(read, state)
            offered = self._offered(direction, log_probabilities)
            word = self.vocabulary.word_of(draw(offered, temperature, top, random))
            if word == direction.closing:
                break
            drawn.append(word)
            read = [word]
        return direction.ordered(drawn)

    def _score_apart(self, batches: Iterable[list[Sentence]]) -> Iterator[SentenceScore]:
        """Score sentences that each start from zeros, similar lengths together."""
        for window in batches:
            words = self._encode(window)
            scores: list[SentenceScore | None] = [None] * len(window)
            lengths = [len(sentence) + 1 for sentence in window]
            for batch in batch_by_length(lengths, TOKENS_PER_BATCH, SENTENCES_PER_BATCH):
                streams = [[window[number]] for number in batch]
                forward, _ = self._forward.log_likelihoods(streams, words)
                backward, _ = self._backward.log_likelihoods(streams, words)
                for number, *values in zip(batch, forward, backward, strict=True):
                    scores[number] = self._sentence_score(window[number], *values)
            yield from scores  # type: ignore[misc]

    def _score_carried(self, batches: Iterable[list[Sentence]]) -> Iterator[SentenceScore]:
        """Score sentences that each start where the one before has ended."""
        forward_state = backward_state = None
        for window in batches:
            words = self._encode(window)
            (forward,), forward_state = self._forward.log_likelihoods(
                [window], words, forward_state
            )
            (backward,), backward_state = self._backward.log_likelihoods(
                [window], words, backward_state
            )
            bounds = pairwise(accumulate((len(sentence) + 1 for sentence in window), initial=0))
            for sentence, (start, end) in zip(window, bounds, strict=True):
                yield self._sentence_score(sentence, forward[start:end], backward[start:end])

    def _sentence_score(
        self, sentence: Sentence, forward: NDArray[np.float32], backward: NDArray[np.float32]
    ) -> SentenceScore:
        """Name the values (words + 1,) of each direction, which end with the closing marker's."""
        return SentenceScore(
            words=tuple(sentence),
            # Copies: a view of one sentence would keep the whole batch in memory.
            forward=forward[:-1].copy(),
            forward_end=float(forward[-1]),
            backward=backward[-2::-1].copy(),
            backward_end=float(backward[-1]),
            unknown=np.array([self._is_unknown(word) for word in sentence], dtype=bool),
        )

    def _is_unknown(self, word: str) -> bool:
        return target_id(self.vocabulary, word) == self.vocabulary.unknown_id

    def _encode(self, sentences: Sequence[Sentence]) -> DistinctWords:
        """Encode each distinct word of some sentences once."""
        self._unusual.note_all(sentences)
        return encode_distinct(self.bilm, self.vocabulary, sentences)

    def _after(self, direction: Direction, words: Sentence) -> LogProbabilities:
        """Every word's log probability (words,) where these words begin or end a sentence."""
        self._check(words)
        return direction.after(words)

    def _check(self, words: Sentence) -> None:
        """Refuse anything but a list of words; warn of unusual ones."""
        check_sentence(words, 0)
        self._unusual.note_all([words])

    def _likeliest(self, direction: Direction, words: Sentence, top: int) -> list[WordProbability]:
        check_size("top", top)
        offered = self._offered(direction, self._after(direction, words))
        return [
            WordProbability(self.vocabulary.word_of(number), math.exp(offered[number]))
            for number in best(offered, top)
        ]

    def _offered(self, direction: Direction, values: LogProbabilities) -> LogProbabilities:
        """Log probabilities without what is no word, other than the marker that closes."""
        return without(values, self.vocabulary, (direction.opening, UNKNOWN))

    def _fit(self, before: Sentence | None, after: Sentence | None) -> Fit:
        """How well every word fits between others; None leaves a direction out."""
        if before is None and after is None:
            raise InputError("neither before nor after is given; a word needs a context to fit")
        forward = None if before is None else self._after(self._forward, before)
        backward = None if after is None else self._after(self._backward, after)
        both = forward is not None and backward is not None
        prior = log_prior(self.vocabulary) if both else None
        return Fit(self.vocabulary, forward, backward, prior)


def check_text(text: object) -> None:
    """Refuse anything but raw text."""
    if not isinstance(text, str):
        raise InputError(f"expected a text, got {short(text)}")


def check_vocabulary(
    config: ModelConfig, vocabulary: Vocabulary | None, place: str = ""
) -> Vocabulary:
    """Raise if a model cannot predict words, or has other words; `place` begins the message."""
    if config.softmax_words is None:
        raise InputError(
            f"{place}this model has no softmax, so it cannot predict words (AllenNLP's files have "
            "none); use a model folder that elmo pretrain has made"
        )
    if vocabulary is None:
        raise InputError(
            f"{place}this model's softmax has {config.softmax_words:,} words but nobody says "
            "which; give its vocabulary"
        )
    if len(vocabulary) != config.softmax_words:
        raise InputError(
            f"{place}the vocabulary has {len(vocabulary):,} words, the model's softmax "
            f"{config.softmax_words:,}; give the vocabulary it was trained with"
        )
    for marker in (BEGIN, END):
        if marker not in vocabulary:
            raise InputError(f"{place}the vocabulary has no {marker}; give the one of the softmax")
    check_word_input(config, vocabulary)
    return vocabulary
