"""Files of sentences to files of vectors."""
