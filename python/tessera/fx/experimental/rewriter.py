"""Tracing of functions whose text is changed first, so that asserts become nodes."""

import ast
import copy
import inspect
import textwrap
import types

import tessera
from tessera.fx._symbolic_trace import Tracer
from tessera.fx.annotate import annotate

__all__ = ["AST_Rewriter", "RewritingTracer"]

_HELPERS = {"_rewritten_assert": tessera._assert, "_rewritten_annotate": annotate}


class AST_Rewriter(ast.NodeTransformer):
    """Changes a function's text: `assert` becomes a call of torch._assert, `x: T = y` one of fx.annotate."""

    def rewrite(self, fn):
        """The changed function, with the variables of the given one; that itself where it has no text."""
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
        except (OSError, TypeError, SyntaxError):
            return fn
        definition = tree.body[0]
        if not isinstance(definition, ast.FunctionDef):
            return fn
        definition.decorator_list = []
        ast.increment_lineno(tree, fn.__code__.co_firstlineno - 1)
        names = [*fn.__code__.co_freevars, *_HELPERS]
        outer = ast.parse(f"def outer({', '.join(names)}): pass")
        outer.body[0].body = [self.visit(definition)]
        around = compile(ast.fix_missing_locations(outer), inspect.getfile(fn), "exec").co_consts[0]
        code = next(c for c in around.co_consts if isinstance(c, types.CodeType) and c.co_name == fn.__name__)
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
        cells.update((name, types.CellType(helper)) for name, helper in _HELPERS.items())
        closure = tuple(cells[name] for name in code.co_freevars)
        made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
        made.__kwdefaults__, made.__annotations__ = fn.__kwdefaults__, dict(fn.__annotations__)
        made.__qualname__, made.__module__ = fn.__qualname__, fn.__module__
        return made

    def visit_Assert(self, node):
        """The call for an assert."""
        message = node.msg or ast.Constant("")
        call = ast.Call(ast.Name("_rewritten_assert", ast.Load()), [node.test, message], [])
        return ast.copy_location(ast.Expr(call), node)

    def visit_AnnAssign(self, node):
        """The call for an assignment with an annotation."""
        if node.value is None:
            return node
        call = ast.Call(ast.Name("_rewritten_annotate", ast.Load()), [node.value, node.annotation], [])
        return ast.copy_location(ast.Assign([node.target], call), node)


def _changed(module):
    """A copy of a module, with the same tensors, whose forward is the changed one; so are the modules in it."""
    made = copy.copy(module)
    made._modules = {name: m if m is None else _changed(m) for name, m in module._modules.items()}
    cls = type(module)
    if cls.__module__.startswith(("tessera.nn", "torch.nn")) or not isinstance(cls.forward, types.FunctionType):
        return made
    space = {"forward": AST_Rewriter().rewrite(cls.forward), "__module__": cls.__module__}
    made.__class__ = type(cls.__name__, (cls,), space)
    return made


class RewritingTracer(Tracer):
    """A Tracer that keeps the program's asserts: as nodes that call torch._assert. Arguments as of Tracer."""

    def trace(self, root, concrete_args=None):
        """The Graph of a module or function; `root` of the tracer is then what was traced in its place."""
        rewritten = _changed(root) if isinstance(root, tessera.nn.Module) else AST_Rewriter().rewrite(root)
        return super().trace(rewritten, concrete_args)
