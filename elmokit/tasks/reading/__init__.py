"""Questions about a text, answered with words of it: BiDAF with self-attention."""
