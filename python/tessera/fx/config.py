"""Settings of tessera.fx."""

disable_progress = True  # passes show no progress bars
verbose_progress = False
do_not_emit_stack_traces = False  # print_readable(): no notes on where nodes come from
