"""Formats of checkpoints that are older than the archives of today."""
