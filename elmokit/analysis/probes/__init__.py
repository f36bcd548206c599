"""What each layer knows of words, and what both directions know of grammar."""
