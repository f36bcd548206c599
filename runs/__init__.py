"""Whole pipelines: a short script each."""
