"""What each layer knows: parts of speech, word senses, how alike words are."""
