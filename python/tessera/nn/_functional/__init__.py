"""The parts of tessera.nn.functional, by subject. Import the functions from tessera.nn.functional."""
