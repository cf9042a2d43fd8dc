"""Translations of operators, by families; each module enters its own into the table."""
