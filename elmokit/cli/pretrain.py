"""`elmo pretrain`: text to a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from elmokit.cli import options
from elmokit.cli.progress import Display
from elmokit.system import keep_large_blocks

training_options = options.combined(
    options.value(
        "--valid",
        "FILES",
        "Held-out text: a file, folder or pattern. Can be given several times.",
        multiple=True,
    ),
    options.run,
    options.settings("training.rows=64"),
    options.number("--processes", "How many prepare the text. Without it: one per CPU."),
    options.device,
    options.quiet,
    options.as_json,
)
"""What every training run takes."""


def settings_of(
    settings: tuple[str, ...], example: str = "training.rows=64", /, **more: Any
) -> dict[str, Any]:
    """Settings by dotted name, those of flags of their own where they are given.

    `example` is one that the command has, for what is said about those that are none.
    """
    from elmokit.config import parse_setting

    named = {name.replace("__", "."): value for name, value in more.items()}
    given = {name: value for name, value in named.items() if value not in (None, [])}
    return dict(parse_setting(setting, example) for setting in settings) | given


def list_recipes(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Print the recipes that come with the package, and what each is."""
    from elmokit.pretraining.config import recipes

    if wanted:
        for name, path in recipes().items():
            first = path.read_text(encoding="utf-8").partition("\n")[0]
            click.echo(f"{name:<8} {first.removeprefix('# ')}")
        context.exit()


@click.command()
@click.argument("run", metavar="RECIPE")
@options.flag(
    "--list",
    "Print the recipes that come with the package.",
    is_eager=True,
    expose_value=False,
    callback=list_recipes,
)
@options.value(
    "--train",
    "FILES",
    "Text to train on: a file, folder or pattern. Can be given several times.",
    multiple=True,
)
@options.output("FOLDER", "The folder of the run.", required=False)
@training_options
def pretrain(
    run: str,
    train: tuple[str, ...],
    output: str | None,
    valid: tuple[str, ...],
    settings: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train a bidirectional language model on text of your own.

    RECIPE is modern, paper, or a TOML file of your own; flags take the place of what it says.
    FOLDER gets the model (in FOLDER/model), checkpoints, metrics.jsonl and curves.png. Stop it
    whenever you like: --resume continues exactly where it was. The same command runs under torchrun
    on many processes.

    \b
    Examples:
      elmo pretrain modern --train "text/*.gz" --valid heldout.txt -o my-bilm
      elmo pretrain modern --train "text/*.gz" --valid heldout.txt -o my-bilm --resume
      torchrun --nproc-per-node 8 -m elmokit pretrain paper --train text -o my-bilm
    """
    from elmokit.pretraining.config import read_run

    more = {"corpus__train": list(train), "corpus__valid": list(valid), "output": output}
    config = read_run(run, settings_of(settings, **more))
    if config.output is not None:
        options.check_run(config.output, resume=flags["resume"], force=flags["force"])
    from elmokit.pretraining.run import pretrain as train_model

    keep_large_blocks()
    with Display(quiet) as shown:
        result = train_model(config, **flags, observer=shown)
    options.show_result(result, as_json)


@click.command()
@click.argument("model")
@click.argument("corpus", nargs=-1, required=True)
@options.output("FOLDER", "The folder of the run.")
@options.value("--epochs", "N", "How often to read the text (1).", type=float)
@options.number(
    "--new-words",
    "Add the text's N most frequent new words to the vocabulary. Without it: it is kept.",
    default=0,
    least=0,
)
@training_options
def finetune(
    model: str,
    corpus: tuple[str, ...],
    output: str,
    epochs: float | None,
    valid: tuple[str, ...],
    settings: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train a model on for a domain, and say what it has gained.

    MODEL is a model folder with a softmax. CORPUS is text of the domain: files, folders, patterns;
    it is split as the model's own text was. FOLDER/model is the new model.

    \b
    Example:
      elmo finetune my-bilm/model reviews/*.txt --valid heldout-reviews.txt -o my-reviews
    """
    options.check_run(output, resume=flags["resume"], force=flags["force"])
    from elmokit.formats.find import read_model
    from elmokit.jobs.run_folder import check_outside
    from elmokit.pretraining.run import finetune as train_on
    from elmokit.pretraining.run import finetuning_run

    keep_large_blocks()
    if flags["force"]:
        check_outside(output, model)
    with Display(quiet) as shown:
        saved = read_model(model, progress=shown.fetching)
        changes = settings_of(settings, training__epochs=epochs)
        config = finetuning_run(saved, corpus, output, valid=valid, settings=changes)
        result = train_on(saved, config, **flags, observer=shown)
    options.show_result(result, as_json)


@click.command()
@click.argument("corpus", nargs=-1, required=True)
@options.output("FILE", "Where to write the words.")
@options.number(
    "--max-size", "Keep the most frequent words: N in all, <S>, </S> and <UNK> among them.", least=4
)
@options.number("--min-count", "Leave out words that come less often.", default=1)
@options.corpus
@options.number("--processes", "How many split the text. Without it: one per CPU.")
@options.value(
    "--cache",
    "FOLDER",
    "Where the prepared text is kept for training. Without it: corpora in ELMOKIT_CACHE.",
    type=click.Path(path_type=Path),
)
@options.flag("--force", "Replace FILE if it is there.")
@options.quiet
@options.as_json
def vocabulary(
    corpus: tuple[str, ...], output: str, quiet: bool, as_json: bool, **settings: Any
) -> None:
    """Count the words of CORPUS, and write those to predict.

    CORPUS is any number of text files (plain, .gz, .bz2, .xz, .zst), patterns such as
    "news/**/*.gz", and folders. Each line of FILE is a word and its count, the most frequent first,
    after <S>, </S> and <UNK>. The text is prepared for `elmo pretrain` at the same time; where that
    was cut off, it continues when run again.

    \b
    Examples:
      elmo vocabulary news/ -o vocabulary.txt --max-size 100000
      elmo vocabulary "tokenized/*.txt.xz" -o vocabulary.txt --tokenizer whitespace --min-count 3
    """
    from elmokit.pretraining.corpus import write_corpus_vocabulary

    text = options.corpus_text(settings)
    with Display(quiet) as shown:
        summary = write_corpus_vocabulary(corpus, output, text, **settings, observer=shown)
    options.show_result(summary, as_json)
