"""What programs have said about functions."""

import threading

ALLOWED = set()  # functions that are nodes of the graph: allow_in_graph
POLYFILLS = {}  # function -> one in Python that is looked into instead: substitute_in_graph


class _State(threading.local):
    error_on_break = False  # whether the end of a graph is an error: error_on_graph_break


STATE = _State()
