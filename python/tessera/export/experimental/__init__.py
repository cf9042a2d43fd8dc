"""Parts of export that may change."""
