"""Compilers for aot_function: functions of a GraphModule and example inputs that give a callable."""

__all__ = ["make_boxed_compiler", "make_boxed_func", "nop", "print_compile"]


def nop(fx_g, _):
    """Runs the graph as it is."""
    return fx_g


def print_compile(fx_g, _):
    """Prints the graph's code, and runs it as it is."""
    print(fx_g.code)
    return fx_g


def make_boxed_func(f):
    """A function of a list of arguments, which may be emptied, of one of several arguments."""

    def boxed(args):
        return f(*args)

    boxed._boxed_call = True
    return boxed


def make_boxed_compiler(compiler):
    """A compiler whose functions take a list of arguments."""

    def compile_boxed(fx_g, inputs):
        return make_boxed_func(compiler(fx_g, inputs))

    return compile_boxed
