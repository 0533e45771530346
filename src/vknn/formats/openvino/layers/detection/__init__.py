"""Detection layers."""
