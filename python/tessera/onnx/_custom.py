"""Translations that users give: functions of onnxscript, symbolic functions of the older exporter."""

from tessera.onnx._build import Value

_LEGACY = {}  # "namespace::name" -> {opset version: function}


def register(name, function, opset):
    _LEGACY.setdefault(name, {})[opset] = function


def unregister(name, opset):
    versions = _LEGACY.get(name, {})
    if versions.pop(opset, None) is not None and not versions:
        del _LEGACY[name]


def _marked(function):
    function.custom = True
    return function


def legacy_translations(opset):
    """The registered symbolic functions, the newest that is not newer than the version each."""
    made = {}
    for name, versions in _LEGACY.items():
        fitting = [v for v in versions if v <= opset]
        if fitting:
            made[name] = _of_symbolic(versions[max(fitting)])
    return made


def _of_symbolic(function):
    from tessera.onnx.symbolic_helper import GraphContext

    def translate(graph, *args, **kwargs):
        return function(GraphContext(graph), *[_constant(graph, a) for a in (*args, *kwargs.values())])

    return _marked(translate)


def _constant(graph, value):
    """A plain argument as symbolic functions get it: a value that knows what it is."""
    if isinstance(value, Value):
        return value
    from tessera.onnx.symbolic_helper import Constant

    return Constant(graph, value)


def translations(table, opset):
    """What the translator asks before its own table, of custom_translation_table."""
    made = legacy_translations(opset)
    for op, functions in (table or {}).items():
        functions = functions if isinstance(functions, (list, tuple)) else [functions]
        if not callable(op) and not isinstance(op, str):
            raise TypeError(f"custom_translation_table: expected operators as keys, got {type(op).__name__}")
        if not functions or not all(callable(f) for f in functions):
            raise TypeError(f"custom_translation_table: {op}: expected a function or a list of functions")
        made[op] = _of_function(functions)
    return made


def _of_function(functions):
    """The first function that takes the call."""

    def translate(graph, *args, **kwargs):
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "layout", "pin_memory")}
        errors = []
        for function in functions:
            try:
                with writing(graph):
                    found = _called(function, args, kwargs)
            except TypeError as error:
                errors.append(str(error))
                continue
            return found
        raise NotImplementedError(f"custom_translation_table: no function takes the call: {'; '.join(errors)}")

    return _marked(translate)


def _called(function, args, kwargs):
    """A plain function of values, or one of onnxscript, which is run line by line."""
    inner = getattr(function, "function", None)
    if inner is not None and type(function).__module__.startswith("onnxscript"):
        return inner(*args, **kwargs)
    return function(*args, **kwargs)


class writing:
    """Context manager: operators of the package onnxscript that are called write nodes into a graph."""

    def __init__(self, graph):
        self.graph, self.context = graph, None

    def __enter__(self):
        import sys

        script = sys.modules.get("onnxscript")
        if script is not None:
            self.context = script.evaluator.default_as(_evaluator(script, self.graph))
            self.context.__enter__()

    def __exit__(self, *error):
        if self.context is not None:
            self.context.__exit__(*error)


def _evaluator(script, graph):
    class Writer(script.evaluator.Evaluator):
        """Takes what functions of onnxscript call for nodes."""

        def eval(self, schema, inputs, attributes):
            count = len(schema.outputs)
            return self._node(schema.domain, schema.name, inputs, attributes, attributes.pop("_outputs", None) or count)

        def eval_op(self, op, args, kwargs):
            schema = op.op_schema
            names = [p.name for p in schema.inputs] if schema is not None else []
            given = list(args)
            attributes = {}
            for key, value in kwargs.items():
                if key in names:
                    at = names.index(key)
                    given += [None] * (at + 1 - len(given))
                    given[at] = value
                elif key != "_outputs":
                    attributes[key] = value
            count = kwargs.get("_outputs")
            if count is None:
                count = 1
                if schema is not None:
                    count = sum(1 for o in schema.outputs if o.option.name != "Optional") or 1
            return self._node(op.opset.domain, op.name, given, attributes, count, op.opset.version)

        def eval_function(self, function, args, kwargs):
            return function.function(*args, **kwargs)

        def _node(self, domain, name, inputs, attributes, count, version=None):
            if domain and version is not None:
                graph.model.domains.setdefault(domain, version)
            attributes = {k: v for k, v in attributes.items() if v is not None}
            return graph.op(name, *inputs, outputs=count, domain=domain, **attributes)

    return Writer()
