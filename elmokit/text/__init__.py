"""Words to ids. Knows no model and imports no torch."""
