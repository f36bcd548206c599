"""All probes on the bundled model: what its layers know, beside word2vec and fastText; grammar.

    python -m runs.probe_english_small --fasttext checkpoints/fasttext.bin \
        --json checkpoints/probes.json --picture docs/probes.png

Prints one Markdown document. The data are UD English EWT, SemCor with the five test sets of word
senses, the sets of word similarity, and BLiMP, in folders below `--data`. `--static` names the
static vectors to compare with: without it the bundled word2vec, where there is one. `--fasttext`
names fastText vectors, which know relatives of unknown words by their subwords.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import command_line, describe, one_line_errors, write_numbers
from elmokit.analysis.probes.files import read_minimal_pairs, read_semcor, read_tagged
from elmokit.analysis.probes.probes import (
    TaggedText,
    probe_minimal_pairs,
    probe_parts_of_speech,
    probe_similarity,
)
from elmokit.analysis.probes.report import ProbeReport, Source, draw_reports
from elmokit.analysis.probes.senses import probe_nearest_sense, probe_word_senses, read_sense_data
from elmokit.cli.options import load_static
from elmokit.cli.progress import Display
from elmokit.inference.embedder import Embedder
from elmokit.inference.language_model import LanguageModel
from elmokit.io.pictures import check_picture_name
from elmokit.io.text_files import find_files
from elmokit.static.vectors import StaticVectors
from runs.relatives import probe_relatives

DATA = Path("../shared/data")
TREEBANK = ("train.rebuilt", "dev", "test")
SEMCOR = ("brown1", "brown2", "brownv")


class Probed(NamedTuple):
    """The vectors that are asked."""

    model: Embedder
    static: StaticVectors | None
    fasttext: StaticVectors | None

    @property
    def sources(self) -> list[Source]:
        """Static vectors, if there are any, and the model."""
        return [self.model] if self.static is None else [self.static, self.model]


def probe_tags(arguments: argparse.Namespace, probed: Probed) -> ProbeReport:
    """Parts of speech on UD English EWT."""
    folder = arguments.data / "ud-ewt"
    parts = (read_tagged(folder / f"en_ewt-ud-{part}.conllu.gz") for part in TREEBANK)
    text = TaggedText(*parts)
    text = text._replace(train=text.train[: arguments.sentences])
    with Display() as shown:
        return probe_parts_of_speech(probed.sources, text, shown)


def probe_senses(arguments: argparse.Namespace, probed: Probed) -> ProbeReport:
    """Word senses: learnt from all of SemCor, asked on the five test sets."""
    folder = arguments.data / "wsd"
    index = folder / "wordnet-3.0.index.sense.gz"
    data = read_sense_data(semcor_files(folder), folder, index, arguments.sentences)
    with Display() as shown:
        return probe_word_senses(probed.sources, data, shown)


def probe_nearest(arguments: argparse.Namespace, probed: Probed) -> ProbeReport:
    """The nearest occurrence of the same word in SemCor."""
    sentences = read_semcor(semcor_files(arguments.data / "wsd"), arguments.sentences)
    with Display() as shown:
        return probe_nearest_sense(probed.sources, sentences, observer=shown)


def probe_pairs(arguments: argparse.Namespace, probed: Probed) -> ProbeReport:
    """Word similarity by layer 0."""
    sets = find_files([arguments.data / "wordsim" / "EN-*.txt"])
    return probe_similarity(probed.model, sets, probed.static)


def probe_spellings(arguments: argparse.Namespace, probed: Probed) -> ProbeReport:
    """Relatives by layer 0, word2vec and fastText."""
    static = [one for one in (probed.static, probed.fasttext) if one is not None]
    return probe_relatives(probed.model, static)


def probe_grammar(arguments: argparse.Namespace, probed: Probed) -> ProbeReport:
    """BLiMP's minimal pairs; `--sentences` of each paradigm."""
    pairs = read_minimal_pairs([arguments.data / "blimp" / "blimp.jsonl.gz"])
    with Display() as shown:
        model = LanguageModel.load(arguments.model)
        return probe_minimal_pairs(model, pairs, arguments.sentences, shown)


PROBES: dict[str, Callable[[argparse.Namespace, Probed], ProbeReport]] = {
    "pos": probe_tags,
    "wsd": probe_senses,
    "nearest": probe_nearest,
    "similarity": probe_pairs,
    "relatives": probe_spellings,
    "blimp": probe_grammar,
}


def markdown_of(report: ProbeReport) -> str:
    """A report as a table of Markdown, with its notes in the last column."""
    header = [report.title, *report.columns]
    rows = [[name, *cells] for name, cells in report.cells()]
    if report.notes:
        header.append("")
        rows = [[*row, report.notes.get(row[0], "")] for row in rows]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def semcor_files(folder: Path) -> list[Path]:
    """The files of SemCor."""
    return [folder / f"semcor3.{part}.tsv.gz" for part in SEMCOR]


def run(arguments: argparse.Namespace) -> None:
    """Run the probes; print a table for each."""
    if arguments.picture is not None:
        check_picture_name(arguments.picture)
    fasttext = None if arguments.fasttext is None else StaticVectors.load(arguments.fasttext)
    embedder = Embedder.load(arguments.model, softmax=True)
    probed = Probed(embedder, load_static(arguments.static, embedder), fasttext)
    reports = []
    for name in arguments.probes:
        reports.append(PROBES[name](arguments, probed))
        print(f"{markdown_of(reports[-1])}\n", flush=True)
    result = {"machine": describe(), "reports": [report.to_dict() for report in reports]}
    write_numbers(arguments.json, result)
    if arguments.picture is not None:
        draw_reports(reports, arguments.picture)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probes", nargs="*", help=f"some of {', '.join(PROBES)}; without it: all")
    parser.add_argument("--model", help="a model folder; without it, the bundled model")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the data sets")
    parser.add_argument("--static", help="a file of static vectors, or none")
    parser.add_argument("--fasttext", help="a file of fastText vectors, for relatives")
    parser.add_argument(
        "--sentences",
        type=int,
        help="take no more than this many of each file; of BLiMP, pairs of each paradigm",
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parser.add_argument("--picture", type=Path, help="draw a .png or .svg file too")
    parsed = parser.parse_args(arguments)
    parsed.probes = parsed.probes or list(PROBES)
    if unknown := {*parsed.probes} - {*PROBES}:
        parser.error(f"{', '.join(sorted(unknown))}: no such probe; use {', '.join(PROBES)}")
    run(parsed)
    print(command_line("runs.probe_english_small", arguments))


if __name__ == "__main__":
    main()
