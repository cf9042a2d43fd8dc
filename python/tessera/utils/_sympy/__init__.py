"""Numbers and ranges of symbolic sizes, under the names that programs import them by."""
