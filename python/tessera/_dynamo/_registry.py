"""What programs have said about functions."""

ALLOWED = set()  # functions that are nodes of the graph: allow_in_graph
POLYFILLS = {}  # function -> one in Python that is looked into instead: substitute_in_graph
