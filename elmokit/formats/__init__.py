"""Models and vectors to and from disk: one file per format, each with read_* and write_*."""
