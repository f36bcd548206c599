"""`elmo probe`: what each layer knows of words; what both directions know of grammar."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli import EitherSpelling, options
from elmokit.cli.progress import Display

if TYPE_CHECKING:
    from elmokit.analysis.probes.report import ProbeReport
    from elmokit.inference.embedder import Embedder
    from elmokit.static.vectors import StaticVectors

semcor_option = options.value(
    "--semcor",
    "FILE",
    "Sentences whose words have senses, or a pattern for several files. Can be given several "
    "times.",
    multiple=True,
    required=True,
)


def sentences_option(of: str) -> options.Option[Any]:
    """The option that takes fewer sentences, for a try."""
    return options.number("--sentences", f"Take no more than the first N of {of}.")


@click.group(cls=EitherSpelling)
def probe() -> None:
    """What each layer knows of words, and each direction of grammar.

    Probes of layers ask as the paper's Tables 5 and 6 do: they print a row for each layer and for
    their average, beside what is known without context, a simple rule and static vectors. Their
    --model takes any published model. blimp asks the language model, which needs its softmax.

    \b
    Examples:
      elmo probe pos --train train.conllu --dev dev.conllu --test test.conllu
      elmo probe wsd --semcor semcor.tsv.gz --tests wsd/ --senses index.sense.gz
      elmo probe similarity EN-WS-353-ALL.txt EN-SIMLEX-999.txt
      elmo probe blimp blimp/data --pairs 100
    """


shown_options = options.combined(
    options.picture("Draw it as a .png or .svg file too."), options.quiet, options.as_json
)
probe_options = options.combined(options.static, options.model, options.computing, shown_options)


@probe.command(cls=options.ModelCommand)
@options.value("--train", "FILE", "CoNLL-U, or columns, to learn tags from.", required=True)
@options.value("--dev", "FILE", "The same, that chooses the penalty.", required=True)
@options.value("--test", "FILE", "The same, to be asked about.", required=True)
@options.value(
    "--tag",
    "TAG",
    "Of CoNLL-U: upos, universal parts of speech, or xpos, the language's own. Of columns: the "
    "number of that of the tags, 2 unless given.",
    default="upos",
    type=lambda text: int(text) if text.isdecimal() else click.Choice(("upos", "xpos"))(text),
)
@sentences_option("--train")
@probe_options
def pos(train: str, dev: str, test: str, tag: Any, sentences: int | None, **flags: Any) -> None:
    """Part of speech: accuracy of a linear classifier on the vector of the word alone.

    The classifier, scikit-learn's logistic regression, is trained alike on every layer; of three
    penalties --dev chooses one. The vectors of all words are held at a time: 2 bytes for each value
    of each layer.

    \b
    Example:
      elmo probe pos --train en_ewt-ud-train.conllu --dev en_ewt-ud-dev.conllu \\
        --test en_ewt-ud-test.conllu --picture pos.png
    """
    from elmokit.analysis.probes.files import read_tagged
    from elmokit.analysis.probes.probes import TaggedText, probe_parts_of_speech

    text = TaggedText(*(read_tagged(path, tag) for path in (train, dev, test)))
    text = text._replace(train=text.train[:sentences])
    run_probe(probe_parts_of_speech, text, **flags)


@probe.command(cls=options.ModelCommand)
@semcor_option
@options.value(
    "--tests",
    "DIR",
    "A folder of test sets: NAME.data.xml and NAME.gold.key.txt, as Raganato and others "
    "unified them.",
    required=True,
)
@options.value("--senses", "FILE", "WordNet's index.sense: first senses.", required=True)
@sentences_option("each file of SemCor")
@probe_options
def wsd(
    semcor: tuple[str, ...], tests: str, senses: str, sentences: int | None, **flags: Any
) -> None:
    """Word sense: F1 of the sense whose mean vector in SemCor is nearest.

    A lemma that SemCor does not have gets WordNet's first sense, which is the baseline too. A unit
    of several words, such as took_place, has the mean of their vectors.

    \b
    Example:
      elmo probe wsd --semcor "semcor3.brown[12].tsv.gz" --tests wsd/ \\
        --senses wordnet-3.0.index.sense.gz
    """
    from elmokit.analysis.probes.senses import probe_word_senses, read_sense_data

    run_probe(probe_word_senses, read_sense_data(semcor, tests, senses, sentences), **flags)


@probe.command(cls=options.ModelCommand)
@semcor_option
@sentences_option("each file of SemCor")
@options.number("--most", "Occurrences of a word to compare.", default=200, least=2)
@probe_options
def nearest(semcor: tuple[str, ...], sentences: int | None, most: int, **flags: Any) -> None:
    """How often the nearest occurrence of the same word has the same sense, against chance.

    Words are what is written in SemCor, in capitals or not, with several senses there. Chance
    takes any other occurrence of the word. Those in the same sentence are never compared.

    \b
    Example:
      elmo probe nearest --semcor "semcor3.brown[12].tsv.gz"
    """
    from elmokit.analysis.probes.files import read_semcor
    from elmokit.analysis.probes.senses import probe_nearest_sense
    from elmokit.io.text_files import find_files

    found = read_semcor(find_files(semcor), sentences)
    run_probe(probe_nearest_sense, found, most, **flags)


@probe.command(cls=options.ModelCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@probe_options
def similarity(files: tuple[str, ...], picture: str | None, as_json: bool, **flags: Any) -> None:
    """Word similarity: how well layer 0, which reads letters, orders pairs as people do.

    FILE has two words and a score on each line. Static vectors do not know every word: beside
    them, layer 0 is shown for the pairs that they know too.

    \b
    Example:
      elmo probe similarity EN-WS-353-ALL.txt EN-RW-STANFORD.txt
    """
    from elmokit.analysis.probes.probes import probe_similarity
    from elmokit.static.evaluation import read_judgements

    for path in files:  # before a model is loaded for nothing
        read_judgements(path)
    model, static = load_both(**flags)
    show(probe_similarity(model, files, static), picture, as_json)


@probe.command(cls=options.ModelCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.number("--pairs", "Take no more than N pairs of each paradigm, from all over it.")
@options.language_model
@shown_options
def blimp(
    files: tuple[str, ...], pairs: int | None, picture: str | None, as_json: bool, **flags: Any
) -> None:
    """Grammar: how often the right one of two sentences is the likelier one.

    FILE has BLiMP's minimal pairs as JSON lines: a file for each paradigm, one for all, or their
    folder. Accuracy is by the log probability of the whole sentence, read forward, backward, and
    the sum of both; a tie counts one half. Every sentence starts from zeros.

    A row is the mean of its paradigms; --json has each of them.

    \b
    Example:
      elmo probe blimp blimp/data --pairs 100
    """
    from elmokit.analysis.probes.files import read_minimal_pairs
    from elmokit.analysis.probes.probes import probe_minimal_pairs

    found = read_minimal_pairs(files)
    language_model = options.load_language_model(**flags)
    with Display(flags["quiet"]) as shown:
        report = probe_minimal_pairs(language_model, found, pairs, shown)
    show(report, picture, as_json)


def load_both(static: str | None, **flags: Any) -> tuple[Embedder, StaticVectors | None]:
    """The model and the static vectors that the flags describe."""
    embedder = options.load_embedder(**flags)
    return embedder, options.load_static(static, embedder)


def run_probe(
    probe: Callable[..., ProbeReport], *data: Any, picture: str | None, as_json: bool, **flags: Any
) -> None:
    """Probe static vectors, if there are any, and the model; print what comes of it."""
    model, static = load_both(**flags)
    sources = [model] if static is None else [static, model]
    with Display(flags["quiet"]) as shown:
        report = probe(sources, *data, shown)
    show(report, picture, as_json)


def show(report: ProbeReport, picture: str | None, as_json: bool) -> None:
    """Print a report, and draw it if there is to be a picture."""
    if picture is not None:
        from elmokit.analysis.probes.report import draw_reports

        given = click.get_current_context().params
        of = next(given[name] for name in ("test", "tests", "files", "semcor") if given.get(name))
        names = [of] if isinstance(of, str) else of
        draw_reports([report], picture, ", ".join(Path(name).name for name in names))
        click.echo(f"the picture is in {picture}", err=True)
    click.echo(json.dumps(report.to_dict(), indent=2) if as_json else report.table())
