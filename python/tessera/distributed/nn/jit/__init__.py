"""Remote modules have no compiled form; they run as Python."""
