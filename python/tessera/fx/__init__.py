"""Programs as graphs: tracing a module or function, editing the graph, running it, and Python code of it.

>>> from tessera import fx
>>> traced = fx.symbolic_trace(lambda x: tessera.sin(x) + 1)
>>> [node.name for node in traced.graph.nodes]
['x', 'sin', 'add', 'output']
"""

from tessera._lazy import attach as _attach

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "PH",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

__getattr__, __dir__ = _attach(
    __name__,
    {
        "CodeGen": "graph",
        "Graph": "graph",
        "GraphModule": "graph_module",
        "Interpreter": "interpreter",
        "Match": "subgraph_rewriter",
        "Node": "node",
        "PH": "_symbolic_trace",
        "PHBase": "_symbolic_trace",
        "Proxy": "proxy",
        "ProxyableClassMeta": "_symbolic_trace",
        "TraceError": "proxy",
        "Tracer": "_symbolic_trace",
        "Transformer": "interpreter",
        "has_side_effect": "node",
        "map_arg": "node",
        "replace_pattern": "subgraph_rewriter",
        "symbolic_trace": "_symbolic_trace",
        "wrap": "_symbolic_trace",
    },
)
