"""Text to vectors and probabilities: Embedder, LanguageModel."""
