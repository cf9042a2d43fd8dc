"""Where a program spends its time: `python -m tessera.utils.bottleneck program.py [arguments]`."""
