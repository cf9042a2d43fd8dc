"""Names of the root that load on first use (`__init__.py` lists them)."""
