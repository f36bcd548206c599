"""What long jobs stand on: checkpoints, metrics."""
