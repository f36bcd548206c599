"""Scripts that print one table each; README.md keeps the results."""
