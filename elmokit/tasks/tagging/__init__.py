"""A tag for each word: parts of speech, or entities."""
