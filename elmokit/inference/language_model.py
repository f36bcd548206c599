"""LanguageModel: the probability of words, the next one, the missing one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmokit.config import Count, CountOrZero, ModelConfig, Number, checked
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
    draw,
    find_place,
    without,
)
from elmokit.inference.token_vectors import (
    WordCache,
    check_device,
    check_word_input,
    unusual_words,
    word_cache,
)
from elmokit.io.fetch import Progress
from elmokit.model.bilm import BiLM
from elmokit.model.lstm import LSTMState, pack
from elmokit.model.weights import track_writes
from elmokit.text.characters import (
    Sentence,
    batch_by_length,
    check_sentence,
    check_sentences,
    windows,
)
from elmokit.text.scripts import SeenScripts
from elmokit.text.tokenizer import AnyTokenizer, SplitsText, tokenizer_of
from elmokit.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary


class Direction:
    """One half of a biLM that has a softmax, and the words it predicts.

    Forward it reads `<S> w1 … wn` and predicts `w1 … wn </S>`, backward it reads `</S> wn … w1` and
    predicts `wn … w1 <S>`: it never reads the marker that it predicts last, the `closing` one.
    """

    def __init__(
        self, bilm: BiLM, vocabulary: Vocabulary, cache: WordCache, *, forward: bool
    ) -> None:
        assert bilm.softmax is not None  # a LanguageModel raises for a model without
        self.softmax = bilm.softmax
        self.vocabulary = vocabulary
        self.cache = cache
        self.forward = forward
        self.lstm = bilm.forward_lstm if forward else bilm.backward_lstm
        self.opening, self.closing = (BEGIN, END) if forward else (END, BEGIN)

    def ordered(self, words: Sentence) -> list[str]:
        """The words of a sentence in the order of this direction; the order back, too."""
        return list(words) if self.forward else list(words)[::-1]

    def opened(self, words: Sentence) -> list[str]:
        """What it reads of a sentence: the opening marker, and the words in its order."""
        opening = self.vocabulary.begin if self.forward else self.vocabulary.end
        return [opening, *self.ordered(words)]

    @torch.inference_mode()
    def log_likelihoods(
        self, streams: Sequence[Sequence[Sentence]], state: LSTMState | None
    ) -> tuple[list[NDArray[np.float32]], LSTMState]:
        """Log probabilities of the targets of streams of sentences, and the state after them.

        (words + 1,) for each sentence of each stream in turn: its words, in the order of this
        direction, and the closing marker.
        """
        read = [[word for one in stream for word in self.opened(one)] for stream in streams]
        vectors, lengths = self.cache.padded(read)
        packing = pack(lengths, vectors.shape[1], vectors.device)
        ids = pad_sequence([self._targets(stream) for stream in streams], batch_first=True)
        targets = ids.to(vectors.device).flatten()[packing.forward]
        tokens = vectors.flatten(0, 1)[packing.forward]
        outputs, after = self._outputs(tokens, packing.step_sizes, state)
        values = self.softmax.log_likelihood(outputs, targets)
        padded = values.new_zeros(ids.numel())
        padded[packing.forward] = values
        rows = padded.view(ids.shape).float().cpu().numpy()
        flat = np.concatenate([row[:n] for row, n in zip(rows, lengths, strict=True)])
        ends = np.cumsum([len(sentence) + 1 for stream in streams for sentence in stream])
        return np.split(flat, ends[:-1]), after

    @torch.inference_mode()
    def read_on(
        self, words: Sequence[str], state: LSTMState | None = None
    ) -> tuple[LogProbabilities, LSTMState]:
        """Read words one after the other: every word's log probability (words,), and the state."""
        outputs, after = self._outputs(self.cache.vectors(words), [1] * len(words), state)
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


StartState = Literal["zero", "carry"]

SENTENCES_PER_BATCH = 256
TOKENS_PER_BATCH = 8192
TOKENS_PER_WINDOW = {"zero": 65536, "carry": 4096}  # how much of a stream is read at once
TOKENS_OF_FIRST_WINDOW = 128
CACHED_WORDS = 32768
NO_SOFTMAX = (
    "this model has no softmax, so it cannot predict words (AllenNLP's files have none); use a "
    "model folder that elmo pretrain has made, or fetch one: elmo download original --softmax"
)


class LanguageModel(SplitsText):
    """Probabilities of words from both directions of a biLM. Calls from several threads are safe.

    Every call computes with the weights as they are then, so a model may be measured in the middle
    of its training.

    Args:
        bilm: The language model, with its softmax. It is put on `device` if one is given.
        vocabulary: The words of the softmax, `<S>` and `</S>` among them.
        tokenizer: What `split` and `find_place` split raw text with; as of an `Embedder`.
        device: Where to compute; the model's own device if None.
        scripts: As of an `Embedder`.
    """

    def __init__(
        self,
        bilm: BiLM,
        vocabulary: Vocabulary | None,
        *,
        tokenizer: AnyTokenizer = "default",
        device: str | torch.device | None = None,
        scripts: SeenScripts | None = None,
    ) -> None:
        if bilm.softmax is None:
            raise InputError(NO_SOFTMAX)
        self.vocabulary = check_vocabulary(bilm.config, vocabulary)
        self.bilm = bilm.to(check_device(device)) if device is not None else bilm
        track_writes(bilm)
        self.tokenizer = tokenizer_of(tokenizer)
        self._scripts = scripts
        cache = word_cache(bilm, self.vocabulary, CACHED_WORDS, scripts)
        self._forward = Direction(bilm, self.vocabulary, cache, forward=True)
        self._backward = Direction(bilm, self.vocabulary, cache, forward=False)
        self._unusual = unusual_words(bilm.config)

    @classmethod
    def load(
        cls,
        model: Location | None = None,
        weights: Location | None = None,
        *,
        vocabulary: Location | None = None,
        tokenizer: AnyTokenizer | None = None,
        progress: Progress | None = None,
        device: str | torch.device | None = None,
    ) -> LanguageModel:
        """Load the bundled English model, a model folder, or an AllenNLP pair with its words.

        `vocabulary` and `progress` are those of `formats.find.read_model`, the rest those of the
        constructor. The tokenizer is the one the model was trained with unless given.
        """
        saved = read_model(model, weights, vocabulary=vocabulary, progress=progress)
        check_vocabulary(saved.config, saved.vocabulary, "" if model is None else f"{model}: ")
        return cls(
            BiLM.from_weights(saved.config, saved.weights),
            saved.vocabulary,
            tokenizer=tokenizer if tokenizer is not None else saved.tokenizer,
            device=device,
            scripts=saved.scripts,
        )

    def __repr__(self) -> str:
        return f"LanguageModel({len(self.vocabulary)} words)"

    def __reduce__(self) -> tuple[Callable[..., LanguageModel], tuple[BiLM, Vocabulary]]:
        # A copy, or a worker's, starts with an empty cache.
        made = partial(type(self), tokenizer=self.tokenizer, scripts=self._scripts)
        return made, (self.bilm, self.vocabulary)

    def find_place(self, text: str, *, previous: bool = False, missing: bool = False) -> Gap:
        """Where a raw sentence lacks a word, `___` or its end; see `predictions.find_place`."""
        return find_place(text, self.tokenizer, previous=previous, missing=missing)

    def score(
        self, sentences: Sequence[Sentence], state: StartState = "zero"
    ) -> list[SentenceScore]:
        """Log probability of every word of some sentences, and of their markers.

        In state `zero` each sentence stands alone. In state `carry` they are one text: both
        directions take each sentence in turn, with what they remember of those before. A word
        outside the vocabulary is read as it is written, and has the value of `<UNK>`.
        """
        return list(self.score_stream(sentences, state))

    def score_stream(
        self, sentences: Iterable[Sentence], state: StartState = "zero"
    ) -> Iterator[SentenceScore]:
        """Score any number of sentences in constant memory, in order."""
        checked("state", state, StartState)
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        tokens = TOKENS_PER_WINDOW[state]
        batches = windows(sentences, tokens, tokens, TOKENS_OF_FIRST_WINDOW)
        return self._score_windows(batches, carry=state == "carry")

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
        checked("top", top, Count)
        fit = self._fit(before, after)
        return [fit.row(number) for number in best(fit.scores, top)]

    def rank(
        self, before: Sentence | None, candidates: Sequence[str], after: Sentence | None = None
    ) -> list[RankedWord]:
        """Order candidates by how well they fit a place, the best first.

        With words on both sides as `missing_words` does. None for one side: that direction is left
        out, and the score is the other's log probability. An empty list is the sentence's border.
        Candidates outside the vocabulary come last, with `known` False.
        """
        check_candidates(candidates)
        fit = self._fit(before, after)
        words = [word for word in candidates if word in self.vocabulary and word not in NOT_OFFERED]
        ids = sorted((self.vocabulary.id_of(word) for word in words), key=lambda n: -fit.scores[n])
        unknown = [
            RankedWord(word, -math.inf, 0.0, None, None, None, known=False)
            for word in candidates
            if word not in words
        ]
        return [*map(fit.row, ids), *unknown]

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
        checked("words", words, Count)
        checked("temperature", temperature, Number)
        if top is not None:
            checked("top", top, Count)
        if seed is not None:
            checked("seed", seed, CountOrZero)
        if after is not None and before:
            raise InputError("both before and after are given; sampling continues from one of them")
        direction = self._forward if after is None else self._backward
        random = np.random.default_rng(seed)
        context = before if after is None else after
        read = self._opened(direction, context)
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

    def _score_windows(
        self, batches: Iterable[list[Sentence]], carry: bool
    ) -> Iterator[SentenceScore]:
        """Score sentences: one stream that carries its state, or each from zeros, by length."""
        before: LSTMState | None = None  # of the forward direction
        behind: LSTMState | None = None
        for window in batches:
            self._unusual.note_all(window)
            targets = [len(sentence) + 1 for sentence in window]
            scores: list[SentenceScore | None] = [None] * len(window)
            apart = [] if carry else batch_by_length(targets, TOKENS_PER_BATCH, SENTENCES_PER_BATCH)
            for batch in apart or [list(range(len(window)))]:
                sentences = [window[number] for number in batch]
                streams = [sentences] if carry else [[sentence] for sentence in sentences]
                forward, before = self._forward.log_likelihoods(streams, before if carry else None)
                backward, behind = self._backward.log_likelihoods(
                    streams, behind if carry else None
                )
                for number, *values in zip(batch, forward, backward, strict=True):
                    scores[number] = self._sentence_score(window[number], *values)
            yield from scores  # type: ignore[misc]

    def _sentence_score(
        self, sentence: Sentence, forward: NDArray[np.float32], backward: NDArray[np.float32]
    ) -> SentenceScore:
        """Name the values (words + 1,) of each direction, which end with the closing marker's."""
        ids = [target_id(self.vocabulary, word) for word in sentence]
        return SentenceScore(
            words=tuple(sentence),
            # Copies: a view of one sentence would keep the whole batch in memory.
            forward=forward[:-1].copy(),
            forward_end=float(forward[-1]),
            backward=backward[-2::-1].copy(),
            backward_end=float(backward[-1]),
            unknown=np.array([id == self.vocabulary.unknown_id for id in ids], dtype=bool),
        )

    def _opened(self, direction: Direction, words: Sentence) -> list[str]:
        """What a direction reads of words that begin or end a sentence; warns of unusual ones."""
        words = check_sentence(words, 0)
        self._unusual.note_all([words])
        return direction.opened(words)

    def _after(self, direction: Direction, words: Sentence) -> LogProbabilities:
        """Every word's log probability (words,) where these words begin or end a sentence."""
        return direction.read_on(self._opened(direction, words))[0]

    def _likeliest(self, direction: Direction, words: Sentence, top: int) -> list[WordProbability]:
        checked("top", top, Count)
        offered = self._offered(direction, self._after(direction, words))
        return [
            WordProbability(self.vocabulary.word_of(number), math.exp(offered[number]))
            for number in best(offered, top)
        ]

    def _offered(self, direction: Direction, values: LogProbabilities) -> LogProbabilities:
        """Log probabilities without what is not a word, other than the marker that closes."""
        return without(values, self.vocabulary, (direction.opening, UNKNOWN))

    def _fit(self, before: Sentence | None, after: Sentence | None) -> Fit:
        """How well every word fits between others; None leaves a direction out."""
        if before is None and after is None:
            raise InputError("neither before nor after is given; a word needs a context to fit")
        forward = None if before is None else self._after(self._forward, before)
        backward = None if after is None else self._after(self._backward, after)
        return Fit(self.vocabulary, forward, backward)


def check_vocabulary(
    config: ModelConfig,
    vocabulary: Vocabulary | None,
    place: str = "",
    advice: str = "give its vocabulary",
) -> Vocabulary:
    """Raise if a model cannot predict words, or has other words.

    `place` begins the message; `advice` ends it where there is no vocabulary.
    """
    if config.softmax_words is None:
        raise InputError(f"{place}{NO_SOFTMAX}")
    if vocabulary is None:
        raise InputError(
            f"{place}this model's softmax has {config.softmax_words:,} words but does not say "
            f"which; {advice}"
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
