"""Annotated texts that probes learn from and are asked about: one file per format."""
