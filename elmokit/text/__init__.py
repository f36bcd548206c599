"""Words to ids. Knows no model; imports torch only where tensors are asked for."""
