"""`elmo probe`: what each layer knows of words; what both directions know of grammar."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import (
    JSON_OPTION,
    QUIET_OPTION,
    STATIC_OPTION,
    Function,
    ModelCommand,
    add_options,
    check_place,
    computing_options,
    language_model_options,
    load_embedder,
    load_language_model,
    load_static,
    model_options,
)
from elmokit.cli.progress import ProgressLine, ScoringProgress

if TYPE_CHECKING:
    from elmokit.analysis.probes.report import ProbeReport, Source
    from elmokit.inference.embedder import Embedder
    from elmokit.static.vectors import StaticVectors

semcor_option = click.option(
    "--semcor",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Sentences whose words have senses, or a pattern for several files. Can be given several "
    "times.",
)
PICTURE_OPTION = click.option(
    "--picture", metavar="FILE", help="Draw it as a .png or .svg file too."
)


def sentences_option(of: str) -> Callable[[Function], Function]:
    """The flag that takes fewer sentences, for a try."""
    return click.option(
        "--sentences",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"Take no more than the first N of {of}.",
    )


class Trainings(ProgressLine):
    """Progress of training classifiers."""

    unit = "training"


@click.group()
def probe() -> None:
    """What each layer of a model knows of words, and both directions of grammar.

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


def probe_options(function: Function) -> Function:
    """Add the flags that all probes of layers share."""
    return add_options(
        function,
        STATIC_OPTION,
        model_options,
        computing_options,
        PICTURE_OPTION,
        QUIET_OPTION,
        JSON_OPTION,
    )


@probe.command(cls=ModelCommand)
@click.option("--train", required=True, metavar="FILE", help="CoNLL-U to learn tags from.")
@click.option("--dev", required=True, metavar="FILE", help="CoNLL-U that chooses the penalty.")
@click.option("--test", required=True, metavar="FILE", help="CoNLL-U to be asked about.")
@click.option(
    "--tag",
    type=click.Choice(["upos", "xpos"]),
    default="upos",
    show_default=True,
    help="Universal parts of speech, or the language's own.",
)
@sentences_option("--train")
@probe_options
def pos(
    train: str,
    dev: str,
    test: str,
    tag: Any,
    sentences: int | None,
    picture: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Part of speech: accuracy of a linear classifier on the vector of the word alone.

    The classifier, scikit-learn's logistic regression, is trained alike on every layer; of three
    penalties --dev chooses one. The vectors of all words are held at a time: 2 bytes for each value
    of each layer.

    \b
    Example:
      elmo probe pos --train en_ewt-ud-train.conllu --dev en_ewt-ud-dev.conllu \\
        --test en_ewt-ud-test.conllu --picture pos.png
    """
    from elmokit.analysis.probes.probes import embed_text, probe_parts_of_speech, read_tagged_text

    check_picture(picture)
    text = read_tagged_text(train, dev, test, tag, sentences)
    quiet = flags["quiet"]
    with ScoringProgress("embedding", quiet) as progress:
        embedded = embed_text(load_sources(**flags), text, progress)
    with Trainings("classifiers", quiet) as progress:
        report = probe_parts_of_speech(text, embedded, progress=progress)
    show(report, picture, as_json)


@probe.command(cls=ModelCommand)
@semcor_option
@click.option(
    "--tests",
    required=True,
    metavar="DIR",
    help="A folder of test sets: NAME.data.xml and NAME.gold.key.txt, as Raganato and others "
    "unified them.",
)
@click.option(
    "--senses", required=True, metavar="FILE", help="WordNet's index.sense: first senses."
)
@sentences_option("each file of SemCor")
@probe_options
def wsd(
    semcor: tuple[str, ...],
    tests: str,
    senses: str,
    sentences: int | None,
    picture: str | None,
    as_json: bool,
    **flags: Any,
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

    check_picture(picture)
    data = read_sense_data(semcor, tests, senses, sentences)
    sources = load_sources(**flags)
    with ScoringProgress("embedding", flags["quiet"]) as progress:
        report = probe_word_senses(sources, data, progress)
    show(report, picture, as_json)


@probe.command(cls=ModelCommand)
@semcor_option
@sentences_option("each file of SemCor")
@click.option(
    "--most",
    type=click.IntRange(min=2),
    default=200,
    show_default=True,
    metavar="N",
    help="Occurrences of a word to compare.",
)
@probe_options
def nearest(
    semcor: tuple[str, ...],
    sentences: int | None,
    most: int,
    picture: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
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

    check_picture(picture)
    found = read_semcor(find_files(semcor), sentences)
    sources = load_sources(**flags)
    with ScoringProgress("embedding", flags["quiet"]) as progress:
        report = probe_nearest_sense(sources, found, most, progress)
    show(report, picture, as_json)


@probe.command(cls=ModelCommand)
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

    check_picture(picture)
    for path in files:  # before a model is loaded for nothing
        read_judgements(path)
    model, static = load_both(**flags)
    show(probe_similarity(model, files, static), picture, as_json)


@probe.command(cls=ModelCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--pairs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Take no more than N pairs of each paradigm, from all over it.",
)
@language_model_options
@PICTURE_OPTION
@QUIET_OPTION
@JSON_OPTION
def blimp(
    files: tuple[str, ...],
    pairs: int | None,
    picture: str | None,
    as_json: bool,
    **flags: Any,
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

    check_picture(picture)
    found = read_minimal_pairs(files)
    language_model = load_language_model(**flags)
    with ScoringProgress("scoring", flags["quiet"]) as progress:
        report = probe_minimal_pairs(language_model, found, pairs, progress)
    show(report, picture, as_json)


def load_both(static: str | None, **flags: Any) -> tuple[Embedder, StaticVectors | None]:
    """The model and the static vectors that the flags describe."""
    vectors = load_static(static)
    return load_embedder(**flags), vectors


def load_sources(**flags: Any) -> list[Source]:
    """What is probed: static vectors, if there are any, and the model."""
    model, static = load_both(**flags)
    return [model] if static is None else [static, model]


def check_picture(picture: str | None) -> None:
    """Refuse a picture that could not be written, before anything is computed."""
    if picture is not None:
        from elmokit.io.pictures import check_picture_name

        check_picture_name(picture)
        check_place(picture)


def show(report: ProbeReport, picture: str | None, as_json: bool) -> None:
    """Print a report, and draw it if there is to be a picture."""
    if picture is not None:
        from elmokit.analysis.probes.report import draw_reports

        draw_reports([report], picture)
        click.echo(f"the picture is in {picture}", err=True)
    click.echo(json.dumps(report.to_dict(), indent=2) if as_json else report.table())
