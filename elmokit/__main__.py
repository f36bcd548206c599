"""`python -m elmokit` is the `elmo` command."""

from elmokit.cli import main

main()
