"""Parts of `tessera.library`."""
