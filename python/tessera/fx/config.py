"""Settings of tessera.fx."""

disable_progress = True  # Interpreter.run() shows no progress on stderr
verbose_progress = False  # what it shows names each node
do_not_emit_stack_traces = False  # print_readable(): no notes on where nodes come from
