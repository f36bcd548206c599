"""Does a model tell the senses of a word by its sentence, and see through a typo?

    python -m runs.context_check --model checkpoints/english-small/model --text HELD-OUT --failures
    python -m runs.context_check --korean --model checkpoints/korean-small/model

Prints one Markdown document. The questions are in runs/data/context_pairs.toml, with `--korean`
those of senses in runs/data/korean_context_pairs.toml, whose sentences the model's tokenizer
splits. Without `--model` the bundled model is asked. `--text` adds the perplexity of a held-out
text, `--failures` the items that the best layer gets wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.machine import command_line, one_line_errors, table
from elmokit.bundled import ENGLISH_SMALL, KOREAN_SMALL
from elmokit.inference.embedder import Embedder
from elmokit.inference.predictions import Perplexity
from runs.context_measures import (
    FREQUENT_WORDS,
    KOREAN_QUESTIONS,
    MOST_SENTENCES,
    RANDOM_WORDS,
    Nearness,
    Questions,
    Senses,
    check_perplexities,
    check_spellings,
    check_states,
    read_questions,
    summary,
    surface_controls,
)

AIM = 0.8
SETS = {
    "everyday": "sentences as a dictionary has them",
    "balanced": "harder ones, in which the words around and the place say nothing",
    "senses": "plain sentences, of words that are spelt alike",
}
"""What the sets of items are."""


@dataclass(frozen=True)
class Report:
    """All that was found."""

    model: str
    states: dict[str, dict[str, Senses]]  # by set of items, then by state
    typos: dict[str, list[Nearness]]
    relatives: dict[str, list[Nearness]]
    perplexities: dict[str, Perplexity]

    @property
    def senses(self) -> dict[str, Senses]:
        """Those of sentences that stand alone, as embedders start by default; by set of items."""
        return {name: states["zero"] for name, states in self.states.items()}


def check(embedder: Embedder, model: str, questions: Questions, text: str | None) -> Report:
    """Ask a model everything."""
    return Report(
        model,
        {name: check_states(embedder, items) for name, items in questions.items.items()},
        check_spellings(embedder, questions.typos) if questions.typos else {},
        check_spellings(embedder, questions.relatives) if questions.relatives else {},
        check_perplexities(embedder, text) if text else {},
    )


def with_all(kinds: Mapping[str, Sequence[Nearness]]) -> dict[str, Sequence[Nearness]]:
    """The kinds, then all of them together."""
    return {**kinds, "all": [one for results in kinds.values() for one in results]}


def document(report: Report, failures: bool) -> str:
    """The whole report as Markdown."""
    parts = [
        f"# Context check of {report.model}",
        senses_part(report.senses),
    ]
    if report.typos:
        parts.append(spellings_part("Typos", "the typo", "change", report.typos))
    if report.relatives:
        parts.append(spellings_part("Relatives", "the derived word", "kind", report.relatives))
    parts.append(states_part(report.states, report.perplexities))
    if failures:
        parts += [failures_part(name, senses) for name, senses in report.senses.items()]
    return "\n\n".join(parts)


def senses_part(sets: Mapping[str, Senses]) -> str:
    """Each layer's share of right items in each set, in all and by kind."""
    told = " ".join(f"{name.capitalize()}: {SETS[name]}." for name in sets)
    return "\n\n".join(
        [
            "## Senses",
            "A word in three sentences. Right is cosine(anchor, same sense) > cosine(anchor, other "
            f"sense), from state zero; a tie counts ½, so a static vector gets 50 %. {told} "
            "Intervals are Wilson's. No model: by how much the sentences look alike instead.",
            *(part for name, senses in sets.items() for part in set_part(name, senses)),
        ]
    )


def set_part(name: str, senses: Senses) -> tuple[str, str, str]:
    """The heading, the table and the best layer of one set."""
    controls = surface_controls(senses.items)
    kinds = (None, *sorted({item.kind for item in senses.items}))
    header = ["layer"]
    for kind in kinds:
        header += [f"{kind or 'all'} ({senses.score(senses.best, kind).items})", "95 %"]
    rows = [
        [prefix + layer, *(part.score(layer, kind).cells() for kind in kinds)]
        for part, prefix in ((controls, "no model: "), (senses, ""))
        for layer in part.likeness
    ]
    words = len({item.word for item in senses.items})
    heading = f"### {name.capitalize()}: {len(senses.items)} items, {words} words"
    if lost := sum(item.lost for item in senses.items):
        heading += f"; the tokenizer hides the word of {lost} of them, which count as wrong"
    return heading, table(header, rows), best_line(senses)


def best_line(senses: Senses) -> str:
    """The best layer, beside the aim."""
    best = senses.score(senses.best)
    verdict = "reached" if best.share >= AIM else "not reached"
    return (
        f"Best: {senses.best}, {best.share:.1%} (aim: at least {AIM:.0%}, {verdict}). The layer is "
        "chosen on these same items, so its number flatters it a little."
    )


def spellings_part(
    title: str, written: str, kind: str, kinds: Mapping[str, Sequence[Nearness]]
) -> str:
    """How near spellings are to their words, by kind."""
    header = [kind, "pairs", "random words farther", "nearer than their median", "than all", "95 %"]
    rows = []
    for name, results in with_all(kinds).items():
        found = summary(results)
        median = f"{found.nearer_than_median.share:.1%}"
        farther = f"{found.farther:.1%}"
        rows.append([name, str(len(results)), farther, median, found.nearer_than_all.cells()])
    return "\n\n".join(
        [
            f"## {title}",
            f"By the token layer alone, is {written} nearer to its word than random words are? "
            f"These are {RANDOM_WORDS:,} (or all there are) of the {FREQUENT_WORDS:,} most "
            "frequent, as long as the word or one letter more or less. Farther: the mean share of "
            "random words that are. The other shares are of pairs.",
            table(header, rows),
        ]
    )


def states_part(
    sets: Mapping[str, Mapping[str, Senses]], perplexities: Mapping[str, Perplexity]
) -> str:
    """The best layer of each set in each state, and the perplexity where there is a text."""
    header = ["state"]
    for name in sets:
        header += [f"{name}: best layer", "senses", "95 %"]
    notes = (
        "Carry: the sentences are read one after another in a shuffled order, each from what those "
        "before it have left. Warm: each is read twice. The layer is chosen as above, for each."
    )
    rows = {state: [state] for states in sets.values() for state in states}
    for states in sets.values():
        for state, senses in states.items():
            rows[state] += [senses.best, senses.score(senses.best).cells()]
    if perplexities:
        header.append(f"perplexity of the first {MOST_SENTENCES:,} held-out sentences")
        for state, cells in rows.items():
            found = perplexities.get(state)
            cells.append(f"{found.mean:,.2f}" if found else "none")
        notes += " None: a language model does not read what it is to predict, so not twice."
    return "\n\n".join(["## States", notes, table(header, rows.values())])


def failures_part(name: str, senses: Senses) -> str:
    """The items of a set that its best layer gets wrong, the worst first."""
    likeness = senses.likeness[senses.best]
    wrong = [number for number, point in enumerate(senses.points(senses.best)) if point < 1]
    wrong.sort(key=lambda number: likeness[number, 0] - likeness[number, 1])
    rows = []
    for number in wrong:
        item, (same, other) = senses.items[number], likeness[number]
        sentences = map(" ".join, item.sentences)
        rows.append([item.word, item.kind, f"{same:.3f}", f"{other:.3f}", *sentences])
    header = ["word", "kind", "cosine same", "cosine other", "anchor", "same", "other"]
    return "\n\n".join([f"## Failures: {name}, {senses.best}", table(header, rows)])


@one_line_errors()
def main() -> None:
    """Ask a model and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model folder; without it, the bundled model")
    parser.add_argument("--korean", action="store_true", help="ask about senses in Korean")
    parser.add_argument("--text", metavar="FILE", help="raw held-out text to take perplexity of")
    parser.add_argument("--failures", action="store_true", help="list the items gone wrong")
    arguments = parser.parse_args()
    name = arguments.model or (KOREAN_SMALL if arguments.korean else ENGLISH_SMALL)
    embedder = Embedder.load(name, softmax=True)
    korean = (KOREAN_QUESTIONS, embedder.tokenize) if arguments.korean else ()
    report = check(embedder, name, read_questions(*korean), arguments.text)
    print(document(report, arguments.failures))
    print("\n" + command_line("runs.context_check"))


if __name__ == "__main__":
    main()
