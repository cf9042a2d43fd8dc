"""Tools around scripted programs."""
