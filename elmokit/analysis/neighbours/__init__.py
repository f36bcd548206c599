"""Occurrences of words in a corpus, by their vectors in context: build an index, ask it."""
