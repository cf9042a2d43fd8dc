"""Names by which other libraries reach into the transforms."""
