"""Names where programs look for them."""
