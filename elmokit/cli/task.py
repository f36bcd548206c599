"""`elmo task`: train a network on ELMo's vectors, measure it, and ask it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import click

from elmokit.cli import EitherSpelling, options
from elmokit.cli.pretrain import settings_of
from elmokit.cli.progress import Display
from elmokit.io.files import check_new_file
from elmokit.io.text_files import ExampleFormat
from elmokit.system import counted, keep_large_blocks
from elmokit.tasks.catalogue import CATALOGUE, task_config
from elmokit.tasks.config import COLUMN_FORMATS, ElmoPlace, Preset

if TYPE_CHECKING:
    from elmokit.tasks.folder import TaskFolder
    from elmokit.tasks.trained import BilmReference, TrainedTask


EXAMPLE = "training.epochs=5"
HEADER_OPTION = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line of a table names its columns.",
)
SKIP_OPTION = click.option(
    "--skip-bad-rows",
    is_flag=True,
    default=None,
    help="Leave out rows of CSV and TSV with more or fewer fields than columns, and, in SQuAD's "
    "JSON of labelled questions, those without words, without an answer, or whose answer is not "
    "where the file says.",
)


trained_with = options.model_option("where it was when the task was trained")
files_options = options.combined(
    click.option(
        "--format",
        type=click.Choice(list(get_args(ExampleFormat))),
        help="What the files are. Without it: what their names say.",
    ),
    options.value("--encoding", "NAME", "Theirs, such as latin-1 (utf-8)."),
    options.value(
        "--label-column",
        "COLUMN",
        "A name, a number from 1, or upos or xpos. Without it: the usual one.",
    ),
    options.value(
        "--text-column",
        "COLUMN",
        "That of the text, or of words; given twice for pairs.",
        multiple=True,
    ),
    HEADER_OPTION,
    SKIP_OPTION,
)


def text_flags(flags: dict[str, Any], *more: str) -> dict[str, Any]:
    """What flags say of how files are read, as `TextSettings` calls it; taken out of `flags`."""
    names = ("format", "encoding", "label_column", "text_column", "header", "skip_bad_rows")
    given = {name: flags.pop(name, None) for name in (*names, *more)}
    return {name: value for name, value in given.items() if value not in (None, ())}


def settings_of_flags(no_elmo: bool, flags: dict[str, Any]) -> dict[str, Any]:
    """Settings that have a flag of their own, `inputs__static`; taken out of `flags`."""
    given = {name: flags.pop(name) for name in list(flags) if "__" in name}
    if no_elmo and given["inputs__elmo"] not in (None, "none"):
        raise click.UsageError(
            f"--no-elmo and --elmo {given['inputs__elmo']} contradict each other"
        )
    return given | {"inputs__elmo": "none"} if no_elmo else given


def bilm_reference(flags: dict[str, Any]) -> BilmReference | None:
    """The biLM that flags name, None where they name none; they are taken out of all."""
    from elmokit.tasks.trained import BilmReference

    given = BilmReference(*(flags.pop(name) for name in ("model", "weights", "vocabulary")))
    return None if given == BilmReference() else given


def load_task(
    folder: str | TaskFolder, device: str | None, quiet: bool, flags: dict[str, Any]
) -> TrainedTask:
    """The trained task that the flags describe; those of its model are taken out of them."""
    with options.loading(quiet) as shown:
        from elmokit.tasks.trained import TrainedTask

        settings = {"bilm": bilm_reference(flags), "tokenizer": flags.pop("tokenizer")}
        return TrainedTask.load(folder, **settings, device=device, progress=shown.fetching)


@click.command(cls=options.ModelCommand)
@click.argument("folder")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@files_options
@trained_with
@options.device
@options.quiet
@options.as_json
def evaluate(
    folder: str,
    files: tuple[str, ...],
    device: str | None,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Score a trained task on files of labelled examples.

    FOLDER is what elmo task train wrote. Files are read as the training files were, unless flags
    say otherwise. Prints the score, then its parts: precision and recall class by class, and what
    was taken for what; of squad the kinds of questions, of coref the three measures.

    \b
    Example:
      elmo task evaluate my-spam more-messages.csv
    """
    from elmokit.tasks.reports import errors_text

    trained = load_task(folder, device, quiet, flags)
    with Display(quiet) as shown:
        found = trained.evaluate(
            *files, reading=replace(trained.config.files, **text_flags(flags)), observer=shown
        )
    if as_json:
        click.echo(json.dumps(found.score.to_dict()))
    else:
        click.echo(f"{found.score.describe()}\n\n{errors_text(found)}")


@click.command(cls=options.ModelCommand)
@click.argument("folder")
@click.argument("input_file", metavar="[INPUT]", required=False)
@options.value("--context", "FILE.txt", "Of a reader: the text that all questions are about.")
@options.value(
    "--question",
    "TEXT",
    "Of a reader: a question, in place of INPUT. Can be given several times.",
    called="questions",
    multiple=True,
)
@options.value(
    "--predicates",
    "WORD,...",
    "Of srl: these words are the predicates, wherever they occur; the task finds none itself.",
)
@options.value(
    "--tagger", "FOLDER", "Of srl: what this trained task (pos) tags as a verb is a predicate."
)
@options.output("OUT.jsonl", "Where the JSON lines go (standard output).", required=False)
@options.flag("--force", "Replace OUT.jsonl.")
@options.choice(
    "--as",
    ("text", "jsonl", "conll"),
    "What people read; JSON lines; or the columns of CoNLL (ner, pos, srl, coref). Without it: "
    "text on a terminal, conll for labelled columns, else jsonl.",
    called="shown_as",
)
@options.flag(
    "--probabilities",
    "In JSON lines: all that is known of each answer, with probabilities to four digits.",
)
@options.choice(
    "--format",
    ("text", "jsonl", "csv", "tsv", "squad", *COLUMN_FORMATS),
    "What INPUT is. Without it: what its name says, or else what --format was in training; "
    "standard input is text.",
)
@options.value(
    "--text-column",
    "COLUMN",
    "Of a table: the name of the text's column, or its number from 1; given twice for pairs.",
    multiple=True,
)
@HEADER_OPTION
@SKIP_OPTION
@options.value(
    "--encoding",
    "NAME",
    "That of INPUT. Without it: that of the training files for CSV and TSV, else utf-8.",
)
@trained_with
@options.device
@options.quiet
def predict(
    folder: str,
    input_file: str | None,
    context: str | None,
    questions: tuple[str, ...],
    predicates: str | None,
    tagger: str | None,
    output: str | None,
    force: bool,
    shown_as: Any,
    probabilities: bool,
    device: str | None,
    quiet: bool,
    **flags: Any,
) -> None:
    """Ask a trained task about text: its class, tags, entities, roles, or an answer.

    FOLDER is what elmo task train wrote. Each line of INPUT (- for standard input) is a raw text,
    or for pairs two texts with a tab between them; or INPUT is a table: .csv, .tsv, or .jsonl with
    "text" or "words" in each object, or "first" and "second". Tables are read as the training files
    were, unless flags say otherwise. Blank lines are left out.

    A reader (squad) answers questions with words of a text: --context names the text, and each line
    of INPUT, or each --question, asks about it. Or the questions bring their texts: JSON lines with
    "question" and "context", a tab between the two, or SQuAD's JSON, whose answers are not looked
    at.

    For coref all lines of INPUT are one document; JSON lines hold one each. In text, brackets with
    numbers are around what is mentioned, equal numbers for the same.

    INPUT may have labelled columns (.conll, .conllu, or by --format): the answer becomes one column
    more, as conlleval and the reference scorer of coreference read it. In CoNLL-U it takes the
    place of the tag, and roles take the place of those that were there, beside the same predicates.

    For srl the task finds the predicates, unless --predicates or --tagger say which they are, or
    JSON lines with "predicates": a list of words, or of their numbers from 0.

    Whatever else a row has is kept; a field that the answer has too becomes given_label, for one,
    and the answer's is label.

    \b
    Examples:
      echo "Free entry! Text WIN to 80086 now" | elmo task predict my-spam -
      elmo task predict my-spam messages.csv --text-column message -o answers.jsonl
      elmo task predict my-ner news.txt -o entities.jsonl
      elmo task predict my-ner eng.testb --format columns > for-conlleval.txt
      elmo task predict my-squad --context report.txt --question "Who wrote it?"
      elmo task predict my-coref story.txt --as text
      elmo task predict my-srl news.txt --tagger my-pos -o roles.jsonl
    """
    check_asked(input_file, questions, predicates, tagger)
    if output is not None:
        check_new_file(output, force, [name for name in (input_file, context) if name])
        options.check_place(output)
    from elmokit.tasks import ask
    from elmokit.tasks.folder import TaskFolder

    opened = TaskFolder(folder)
    of_input = ask.settings_to_predict(input_file or "-", opened.config, **text_flags(flags))
    shown_as = shown_as or ask.how_to_show(of_input, output is None and sys.stdout.isatty())
    ask.check_suits(opened, shown_as, bool(questions), predicates is not None or tagger is not None)
    items = ask.items_asked(opened.config, input_file, of_input, questions, context)
    trained = load_task(opened, device, quiet, flags)
    items = ask.with_predicates(items, trained, predicates, tagger, device)
    manner = {"shown_as": shown_as, "probabilities": probabilities}
    with Display(quiet) as shown:
        number = write(ask.answer_lines(trained, items, **manner, observer=shown), output)
    if output is not None and not quiet:
        click.echo(f"{counted(number, 'answer')} in {output}", err=True)


def check_asked(
    input_file: str | None, questions: tuple[str, ...], predicates: str | None, tagger: str | None
) -> None:
    """Refuse flags that contradict each other."""
    if input_file and questions:
        raise click.UsageError("give INPUT or --question, and not both")
    if not input_file and not questions:
        raise click.UsageError(
            "give INPUT, a file or - for standard input; or, to a reader, questions (--question)"
        )
    if predicates is not None and tagger is not None:
        raise click.UsageError("give --predicates or --tagger, and not both")


def write(lines: Iterator[str], output: str | None) -> int:
    """Print lines, or write them into a file that appears when it is whole; how many they are."""
    from elmokit.io.files import write_atomically

    if output is not None:
        with write_atomically(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
            return sum(1 for line in lines if file.write(f"{line}\n"))
    number = 0
    for line in lines:
        click.echo(line)
        number += 1
    return number


class TaskName(click.Choice[str]):
    """A task of the catalogue; of another name it says which of them learn any labels."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """The message."""
        known = super().get_invalid_choice_message(value, ctx)
        return (
            f"{known} NAME says what kind of labels: spam learns any classes of texts, sst of "
            "sentences, nli of pairs, ner any entities, pos any tags; -o names the result."
        )


@click.command(cls=options.ModelCommand)
@click.argument("name", type=TaskName(list(CATALOGUE)), metavar="NAME")
@options.value(
    "--train",
    "FILE",
    "Labelled examples to learn from. Can be given several times, as --dev and --test.",
    multiple=True,
    required=True,
)
@options.value(
    "--dev",
    "FILE",
    "To choose the best epoch by. Without it: a fixed tenth of the training data is held out.",
    multiple=True,
)
@options.value("--test", "FILE", "To score the result on.", multiple=True)
@options.output("FOLDER", "The trained task.")
@options.choice(
    "--preset",
    get_args(Preset),
    "Minutes on two cores, or the ELMo paper's networks.",
    default="small",
)
@options.value(
    "--static", "FILE", "Word vectors to join: GloVe's or word2vec's.", called="inputs__static"
)
@options.choice(
    "--elmo",
    get_args(ElmoPlace),
    "Where ELMo joins. Without it: what the preset says.",
    called="inputs__elmo",
)
@options.flag("--no-elmo", "The baseline of the same network: --elmo none.")
@options.value(
    "--layers",
    "mix|top|N",
    "All layers mixed, or one alone (mix).",
    called="inputs__layers",
    type=lambda text: int(text) if text.isdecimal() else text,
)
@options.flag(
    "--per-direction",
    "Mix the directions of a layer separately.",
    called="inputs__per_direction",
    default=None,
)
@options.flag(
    "--finetune-bilm", "Train the biLM too.", called="inputs__finetune_bilm", default=None
)
@options.flag("--phrases", "Train on all phrases of sentiment trees.", default=None)
@options.value(
    "--fraction",
    "SHARE",
    "Train on a fixed random part of the examples, such as 0.1.",
    called="training__fraction",
    type=float,
)
@options.number("--seed", "Of all randomness (1).", called="training__seed", least=0)
@options.choice(
    "--cache",
    ("memory", "disk", "none"),
    "Where the layers of a frozen biLM are kept; disk is for other runs too, in ELMOKIT_CACHE.",
    default="memory",
)
@options.flag(
    "--keep-model",
    "Store the biLM in FOLDER too: the task works wherever it is copied, and with later versions "
    "of the bundled models.",
)
@files_options
@options.model
@options.settings(EXAMPLE)
@options.run
@options.device
@options.quiet
@options.as_json
def train(
    name: str,
    output: str,
    preset: Any,
    settings: tuple[str, ...],
    no_elmo: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train a task on files of examples.

    \b
    NAME says what is learnt; your own files take the place of the well-known ones:
      spam   a text's class, from the mean of its word vectors
      sst    a sentence's class, with a biattentive classification network
      ner    entities: words with tags such as B-PER; a BiLSTM with a CRF
      pos    a tag for each word; a BiLSTM
      nli    the class of a pair of sentences; ESIM
      squad  the words of a text that answer a question; BiDAF with self-attention
      coref  which words of a document mean the same; span ranking
      srl    who did what to whom: arguments of predicates; a deep highway LSTM

    Files are CSV, TSV, JSON lines, CoNLL columns, CoNLL-U, sentiment trees; for squad its JSON, for
    coref the columns of CoNLL-2012 or GAP's TSV, for srl those of PropBank or CoNLL-2012; plain or
    compressed.
    FOLDER gets the trained task, scores, curves.png, mix.png and, where there are classes,
    confusion.png. Stop it whenever you like: --resume continues exactly where it was.

    \b
    Examples:
      elmo task train spam --train spam.csv --encoding latin-1 -o my-spam
      elmo task train ner --train eng.train --dev eng.testa --test eng.testb -o my-ner
      elmo task train ner --train eng.train --dev eng.testa --static glove.txt --no-elmo -o base
      elmo task train sst --train trees.txt --dev dev.txt --set training.epochs=5 -o sst
      elmo task train squad --train wiki.json --train reddit.json --test dev.json -o my-squad
      elmo task train coref --train train.conll --dev dev.conll -o my-coref
      elmo task train srl --train propbank.train.tsv --dev propbank.dev.tsv -o my-srl
    """
    options.check_run(output, resume=flags["resume"], force=flags["force"])
    from elmokit.tasks.run import train_task

    keep_large_blocks()
    bilm, reading = bilm_reference(flags), text_flags(flags, "phrases", "tokenizer")
    chosen = settings_of_flags(no_elmo, flags)
    config = task_config(name, preset, settings_of(settings, EXAMPLE, **chosen))
    config = replace(config, files=replace(config.files, **reading))
    with Display(quiet) as shown:
        result = train_task(config, output, **flags, bilm=bilm, observer=shown)
    options.show_result(result, as_json)


@click.group(cls=EitherSpelling)
def task() -> None:
    """Train a task network on ELMo's vectors; measure it, and ask it.

    \b
    Example:
      elmo task train spam --train messages.csv -o my-spam
      elmo task evaluate my-spam more-messages.csv
      echo "Free entry! Text WIN to 80086 now" | elmo task predict my-spam -
    """


for command in (train, evaluate, predict):
    task.add_command(command)
