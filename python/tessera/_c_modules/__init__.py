"""Modules that programs look for inside of the extension: `tessera._C._distributed_c10d` is a file of this folder."""
