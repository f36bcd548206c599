"""One label for each text, or for each pair of sentences."""
