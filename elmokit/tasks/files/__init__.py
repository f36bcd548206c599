"""Files of labelled examples to examples: one module per public format.

`examples.read_examples` chooses among them by the name of a file. All read files that are plain or
compressed (`.gz`, `.bz2`, `.xz`, `.zst`), in UTF-8 or whatever encoding is named.
"""
