"""Running programs on processors with many cores: `python -m tessera.backends.xeon.run_cpu --help`."""
