"""The same model where people already work: old code changes its import line."""
