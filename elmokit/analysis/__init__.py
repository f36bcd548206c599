"""What the vectors show: words compared in context."""
