"""Text to a trained bidirectional language model."""
