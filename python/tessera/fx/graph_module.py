"""Modules whose forward is a graph."""

import copy
import itertools
import linecache
import sys
import traceback
import weakref
from pathlib import Path

import tessera
from tessera.fx._code import OWN_NAMES, member
from tessera.fx.graph import Graph, _PyTreeCodeGen
from tessera.nn import Module

__all__ = ["reduce_graph_module", "reduce_package_graph_module", "GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_numbers = itertools.count()


def _compiled(src, globals_):
    """The function `forward` of generated text, whose lines tracebacks show."""
    name = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[name] = (len(src), None, src.splitlines(True), name)  # no mtime: checkcache leaves it alone
    space = dict(globals_)
    exec(compile(src, name, "exec"), space)
    function = space["forward"]
    function.__globals__["__name__"] = space.get("__name__", __name__)
    return function


def _import_block(globals_):
    """Statements that make what generated text reads."""
    from tessera.fx._names import qualified_name

    lines = []
    for name, obj in globals_.items():
        if name == "torch":
            lines.append("import torch")
        elif name in ("inf", "nan"):
            lines.append(f"from math import {name}")
        elif name == "device":
            lines.append("from torch import device")
        elif name == "NoneType":
            lines.append("NoneType = type(None)")
        elif hasattr(obj, "__path__") or type(obj).__name__ == "module":
            lines.append(f"import {obj.__name__} as {name}")
        else:
            path = qualified_name(obj)
            module, _, attribute = path.rpartition(".")
            lines.append(f"from {module or 'builtins'} import {attribute} as {name}")
    return "\n".join(lines)


def _run_imports(block):
    space = {}
    shown = tessera._display_name
    for line in block.split("\n"):
        text = (
            line
            if shown == "torch"
            else line.replace("import torch", "import tessera as torch").replace("from torch", "from tessera")
        )
        exec(text, space)
    space.pop("__builtins__", None)
    return space


def _place(root, target, make=False):
    """(module, last name) of a path; make: modules on the way are made."""
    *path, last = target.split(".")
    at = root
    for part in path:
        inner = member(at, part) if hasattr(at, part) else None
        if make and not isinstance(inner, Module):
            inner = Module()
            _give_module(at, part, inner)
        at = inner
    return at, last


def _give_module(owner, name, module):
    """owner.name = module; most of them need nothing of what Module.__setattr__ does."""
    told = tessera.nn.modules.module._global_module_registration_hooks
    taken = name in owner.__dict__ or name in owner._parameters or hasattr(type(owner), name)
    if told or (taken and name not in OWN_NAMES):
        setattr(owner, name, module)
    else:
        owner.__dict__["_modules"][name] = module


def _copy_attr(source, to, target):
    """Puts source's attribute at a path to the same path of another module."""
    *path, last = target.split(".")
    at, new = source, to
    for part in path:
        at, there = member(at, part), new.__dict__["_modules"].get(part)
        if there is None and part not in OWN_NAMES:
            there = getattr(new, part, None)
        if there is at:
            return
        if there is None:
            there = Module()
            _give_module(new, part, there)
        new = there
    value = member(at, last)
    if isinstance(value, Module):
        _give_module(new, last, value)
        return
    if isinstance(value, tessera.Tensor) and not isinstance(value, tessera.nn.Parameter):
        new.register_buffer(last, value)
    else:
        setattr(new, last, value)


class _CodeOnlyModule(Module):
    """A module of nothing but attributes, for what takes a module's parts out of a dictionary (`body`)."""

    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


def _put(root, target, value):
    """Puts a value to a path, and makes the modules on the way."""
    at, last = _place(root, target, make=True)
    if isinstance(value, tessera.Tensor) and not isinstance(value, tessera.nn.Parameter):
        at.register_buffer(last, value)
    else:
        setattr(at, last, value)


def _forward_from_source(body):
    """A module whose forward is generated text, to be traced again: what pickles hold."""

    class CodeOnlyModule(Module):
        def __init__(self, body):
            super().__init__()
            self.__dict__ = body

    imports = _run_imports(body["_import_block"])
    CodeOnlyModule.forward = _compiled(body["_code"], imports)
    return CodeOnlyModule(body)


def reduce_graph_module(body, import_block):
    """Makes a GraphModule of its pickled state: `body` is its __dict__ with `_code`; import_block what that reads."""
    body = dict(body, _import_block=import_block)
    saved_graph = body.pop("_saved_graph", None)
    name = body.pop("_graphmodule_cls_name", "GraphModule")
    bare = _forward_from_source(body)
    if saved_graph is not None:
        graph = saved_graph
    else:
        tracer_cls = body.get("_tracer_cls") or tessera.fx.Tracer

        class KeepModules(tracer_cls):
            def is_leaf_module(self, m, module_qualified_name):
                return True

        graph = KeepModules().trace(bare)
    graph._tracer_cls = body.get("_tracer_cls")
    made = GraphModule(bare, graph, class_name=name)
    for key, value in body.items():
        if key not in made.__dict__ and key not in ("_code", "_import_block"):
            made.__dict__[key] = value
    for kind in ("_parameters", "_buffers", "_modules"):
        for key, value in body.get(kind, {}).items():
            made.__dict__[kind].setdefault(key, value)
    return made


def reduce_package_graph_module(importer, body, generated_module_name):
    """As reduce_graph_module, for modules in a package: the text is a module of the package."""
    forward = importer.import_module(generated_module_name).forward
    import inspect

    return reduce_graph_module(dict(body, _code=inspect.getsource(forward)), _import_block(forward.__globals__))


class _Forwarding:
    """`GraphModule.__call__`: as a module's, and errors in generated code show its lines."""

    def __init__(self, cls):
        self._call = super(cls, cls).__call__

    def __call__(self, module, *args, **kwargs):
        if "_pending" in module.__dict__:
            module._ready()
        try:
            return self._call(module, *args, **kwargs)
        except Exception as error:
            frame = error.__traceback__
            last = None
            while frame is not None:
                if frame.tb_frame.f_code.co_filename.startswith("<eval_with_key>"):
                    last = frame
                frame = frame.tb_next
            if last is not None:
                print(_excerpt(last), file=sys.stderr)
            raise


def _excerpt(tb):
    """The generated lines around the one that failed."""
    name, number = tb.tb_frame.f_code.co_filename, tb.tb_lineno
    lines = linecache.getlines(name)
    head = "".join(traceback.format_tb(tb, limit=1)).rstrip()
    before, after = "".join(lines[max(0, number - 3) : number]), "".join(lines[number : number + 2])
    mark = "    " + "~" * max(len(lines[number - 1].strip()) if number <= len(lines) else 0, 1) + "~~~ <--- HERE"
    title = f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:"
    return "\n".join([head, "", title, before, mark, after])


class _Unwritten:
    """`forward` of a module whose code has not been written yet: it is when somebody asks for it."""

    def __init__(self, module):
        self._module = weakref.ref(module)

    def __get__(self, module, cls):
        self._module()._ready()
        return cls.forward if module is None else module.forward


# By this name in their text accelerate knows classes of one instance, whose forward it has to leave on the class.
_OF_ONE_INSTANCE = "GraphModule.__new__.<locals>.GraphModuleImpl"


class GraphModule(Module):
    """A module whose forward is a graph. Assigning `graph`, or recompile(), makes forward anew.

    Args:
        root: Module (or dict of path -> value) that holds what the graph's get_attr and call_module nodes name; that,
            and nothing else of it, is taken over.
        graph: Graph. It is copied if another GraphModule has it.
        class_name: what the type of the module is called.

    Each GraphModule has a class of its own, so that `forward` is a method as usual.
    """

    shape_env = None  # the ShapeEnv of the trace that it is from, where that had symbols

    def __new__(cls, *args, **kwargs):
        base = next(c for c in cls.__mro__ if not getattr(c, "_is_of_one_instance", False))
        members = {"_is_of_one_instance": True, "__module__": base.__module__, "__qualname__": _OF_ONE_INSTANCE}
        return super().__new__(type(base.__name__, (base,), members))

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        needed = dict.fromkeys(n.target for n in graph.nodes if n.op in ("get_attr", "call_module"))
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for name in getattr(root, "_non_persistent_buffers_set", ()):
                self._non_persistent_buffers_set.add(name)
            for target in needed:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            missing = sorted(needed.keys() - root.keys())
            if missing:
                op = next(n.op for n in graph.nodes if n.target == missing[0])
                raise RuntimeError(
                    f"Node of op {op} referenced target {missing[0]} but that target was not provided in `root`!"
                )
            for target in sorted(needed, key=lambda t: t.count(".")):
                _put(self, target, root[target])
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls, self._tracer_extras = graph._tracer_cls, graph._tracer_extras or {}
        self.meta = {}
        if hasattr(root, "meta") and isinstance(root.meta, dict):
            self.meta.update(root.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}))
        self._replace_hooks, self._create_node_hooks, self._erase_node_hooks = [], [], []
        self._deepcopy_hooks = []

    def __setattr__(self, name, value):
        if name not in OWN_NAMES:
            super().__setattr__(name, value)
        elif isinstance(value, Module):
            self.add_module(name, value)
        elif isinstance(value, tessera.nn.Parameter):
            self.register_parameter(name, value)
        else:
            object.__setattr__(self, name, value)

    def _check_new_name(self, kind, name, own):
        if name not in OWN_NAMES:
            super()._check_new_name(kind, name, own)

    @classmethod
    def _of_trace(cls, root, graph, class_name):
        """As GraphModule(root, graph, class_name), for a graph that nobody else has: its code is written when it, or
        the graph, is first asked for.
        """
        made = cls.__new__(cls)
        made.__dict__["_pending"] = True
        made.__init__(root, graph, class_name)
        return made

    def _ready(self):
        """Writes the code, if that is still to be done."""
        if self.__dict__.pop("_pending", False):
            self.recompile()

    @property
    def graph(self):
        """The Graph. Assign to replace it; after editing it call recompile()."""
        if "_pending" in self.__dict__:
            self._ready()
        return self._graph

    @graph.setter
    def graph(self, g):
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        if g.owning_module is not None and g.owning_module is not self:
            g = copy.deepcopy(g)
        g.owning_module = self
        self.__dict__["_graph"] = g
        if "_pending" in self.__dict__ and "_tracer_cls" not in self.__dict__:
            type(self).forward = _Unwritten(self)
            self._forward_calls()
        else:
            self.recompile()

    @property
    def code(self):
        """The text of forward."""
        self._ready()
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to the library's developers")
        return self._code

    def recompile(self):
        """Makes forward of the graph as it is now.

        Returns: PythonCode.
        """
        self.__dict__.pop("_pending", None)
        if isinstance(self._graph._codegen, _PyTreeCodeGen):
            info = self._graph._codegen.pytree_info
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        made = self._graph.python_code("self")
        self._code, self._lineno_map = made.src, made._lineno_map
        self._prologue_start = made._prologue_start
        cls = type(self)
        cls.forward = _compiled(made.src, made.globals)
        self.__dict__["_code_globals"] = made.globals
        self._forward_calls()
        return made

    def _forward_calls(self):
        cls = type(self)
        if "__call__" not in cls.__dict__:
            forwarding = _Forwarding(cls)
            cls.__call__ = lambda module, *args, **kwargs: forwarding(module, *args, **kwargs)

    # --- submodules ---

    def add_submodule(self, target, m):
        """Puts a module to a path, and makes the modules on the way. Returns whether it could."""
        at = self
        *path, last = target.split(".")
        for part in path:
            inner = getattr(at, part, None)
            if inner is None:
                inner = Module()
                setattr(at, part, inner)
            if not isinstance(inner, Module):
                return False
            at = inner
        at.add_module(last, m)
        return True

    def delete_submodule(self, target):
        """Takes the module at a path out. Returns False if there is none; warns if nodes use it."""
        at = self
        *path, last = target.split(".")
        for part in path:
            at = getattr(at, part, None)
            if not isinstance(at, Module):
                return False
        if not isinstance(getattr(at, last, None), Module):
            return False
        delattr(at, last)
        return True

    def delete_all_unused_submodules(self):
        """Takes out the modules that no call_module and no get_attr node needs, nor lies on the way to one."""
        used = set()
        for n in self.graph.nodes:
            if n.op not in ("call_module", "get_attr"):
                continue
            parts = n.target.split(".")
            used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
            if n.op == "call_module":
                try:
                    used.update(
                        f"{n.target}.{name}" for name, _ in self.get_submodule(n.target).named_modules() if name
                    )
                except AttributeError:
                    pass  # lint() names nodes without a module
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # --- copies, files, text ---

    def __reduce__(self):
        self._ready()
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code_globals", "_lineno_map")}
        block = _import_block(self._code_globals)
        state["_graphmodule_cls_name"] = type(self).__name__
        if isinstance(self._graph._codegen, _PyTreeCodeGen) or "pickle_graph" in self.meta:
            state["_saved_graph"] = self._graph
        return reduce_graph_module, (state, block)

    def __reduce_package__(self, exporter):
        self._ready()
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code_globals", "_lineno_map")}
        state["_graphmodule_cls_name"] = type(self).__name__
        name = f"fx-generated._{exporter.get_unique_id()}"
        exporter.save_source_string(name, _import_block(self._code_globals) + "\n" + self._code)
        return reduce_package_graph_module, (state, name)

    def __deepcopy__(self, memo):
        self._ready()
        bare, made = Module(), self._empty()
        memo[id(self)] = made
        skipped = ("_graph", "_code_globals")
        bare.__dict__ = {k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k not in skipped}
        self._remade(bare, copy.deepcopy(self._graph, memo), made)
        for key in ("meta", "_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks"):
            made.__dict__[key] = bare.__dict__[key]
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self):
        made = self._remade(self, self.graph)
        made.meta = dict(self.meta)
        return made

    def _empty(self):
        base = next(c for c in type(self).__mro__ if not getattr(c, "_is_of_one_instance", False))
        return base.__new__(base)

    def _remade(self, root, graph, made=None):
        made = self._empty() if made is None else made
        GraphModule.__init__(made, root, graph, type(self).__name__)
        for key, value in root.__dict__.items():
            if key not in made.__dict__ and not key.startswith("__"):
                made.__dict__[key] = value
        for kind in ("_parameters", "_buffers", "_modules"):
            for name, value in root.__dict__[kind].items():
                made.__dict__[kind].setdefault(name, value)
        for key, value in root.__dict__.items():
            if "_hooks" in key and isinstance(value, dict):
                made.__dict__[key] = value.copy() if root is self else value
        return made

    def to_folder(self, folder, module_name="FxModule"):
        """Writes the module as Python code, with its parameters, to a folder that can be imported.

        Args:
            folder: path; made if it is not there.
            module_name: the class's name.
        """
        self._ready()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tessera.save(self.state_dict(), folder / "state_dict.pt")
        lines = [_import_block(self._code_globals), "import torch", "from torch.nn import *", "", ""]
        lines += [f"class {module_name}(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
        for name, module in self.named_children():
            tessera.save(module, folder / f"{name}.pt")
            path = f"{str(folder)}/{name}.pt"
            lines.append(f"        setattr(self, {name!r}, torch.load({path!r}, weights_only=False))")
        for name, t in [*self._buffers.items(), *self._parameters.items()]:
            if t is None:
                continue
            empty = f"torch.empty({list(t.shape)}, dtype={_dtype(t)})"
            if name in self._buffers:
                lines.append(f"        self.register_buffer({name!r}, {empty})")
            else:
                lines.append(f"        setattr(self, {name!r}, torch.nn.Parameter({empty}))")
        lines.append(f"        self.load_state_dict(torch.load({str(folder / 'state_dict.pt')!r}))")
        lines += ["    " + line for line in self.code.strip("\n").split("\n")]
        (folder / "module.py").write_text("\n".join(lines) + "\n")
        (folder / "__init__.py").write_text("from .module import *\n")

    def print_readable(
        self, print_output=True, include_stride=False, include_device=False, colored=False, *, fast_sympy_print=False,
        expanded_def=False, additional_meta=None,
    ):  # fmt: skip
        """The text of forward and of inner GraphModules as classes, with notes on where nodes come from.

        Args:
            print_output: print it, too.
            fast_sympy_print: without effect; there are no symbols in it.
            include_stride, include_device, colored, expanded_def, additional_meta: as of Graph.python_code.

        Returns: the text.
        """
        settings = dict(
            verbose=True, include_stride=include_stride, include_device=include_device, colored=colored,
            expanded_def=expanded_def, additional_meta=additional_meta,
        )  # fmt: skip
        text = self._readable(type(self).__name__, settings)
        if print_output:
            print(text)
        return text

    def _readable(self, name, settings):
        """The text of a class of this name, inner graphs as classes of the names of their attributes."""
        code = self.graph.python_code("self", **settings).src
        inner = [m._readable(n, settings) for n, m in self.named_children() if isinstance(m, GraphModule)]
        text = "\n".join([code.strip("\n").rstrip(), *("\n" + t for t in inner)])
        body = "\n".join("    " + line if line.strip() else "" for line in text.split("\n"))
        return f"class {name}(torch.nn.Module):\n{body}\n"

    def __str__(self):
        shown = super().__str__()
        return f"{shown}\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"


OWN_NAMES.update(dir(GraphModule))
OWN_NAMES.update("_graph _code _code_globals _lineno_map _prologue_start _in_spec _out_spec _tracer_cls _tracer_extras "
                 "_replace_hooks _create_node_hooks _erase_node_hooks _deepcopy_hooks meta".split())  # fmt: skip
OWN_NAMES.difference_update(dir(Module))


def _dtype(tensor):
    return "torch." + str(tensor.dtype).rpartition(".")[2]
