"""Instances of classes of programs in Python, and the classes that C++ registers (torch::class_)."""

from tessera._C import _jit

# What Python looks for in the class of an object, where a class has such a method.
_SPECIAL = frozenset(
    f"__{name}__"
    for name in """lt gt le ge eq ne add sub mul matmul truediv floordiv mod pow lshift rshift and xor or iadd isub imul
    itruediv neg pos invert abs len contains getitem setitem delitem call bool int float complex str repr hash iter
    enter exit""".split()
)


class ScriptObject:
    """An instance of a class of a program, or of one that C++ registered. Its methods, properties and attributes are
    those of the class.
    """

    def __init__(self, c):
        self.__dict__["_c"] = c

    def __getattr__(self, name):
        if name.startswith("__") and not self._has_method(name):
            raise AttributeError(name)
        return self._c.get(name)

    def __setattr__(self, name, value):
        self._c.set(name, value)

    def getattr(self, arg0):
        """The attribute of that name. Raises: AttributeError."""
        return self._c.get(arg0)

    def setattr(self, arg0, arg1):
        """Gives an attribute a value. Raises: RuntimeError where there is none of that name, or it is of another
        type.
        """
        self._c.set(arg0, arg1)

    def hasattr(self, arg0):
        """Whether there is an attribute of that name."""
        return any(name == arg0 for name, *_ in self._c.class_.attributes)

    def _type(self):
        return self._c.class_.type

    def _method_names(self):
        return [m.name for m in self._c.class_.methods]

    def _has_method(self, name):
        return name in self._method_names()

    def _get_method(self, name):
        if not self._has_method(name):
            raise RuntimeError(f"Method '{name}' is not defined.")
        return self._c.get(name)

    def __dir__(self):
        return sorted({*object.__dir__(self), *self._method_names(), *(a[0] for a in self._c.class_.attributes)})

    def __deepcopy__(self, memo):
        return wrapped_object(self._c.copy())

    def __reduce__(self):
        name = self._c.class_.name
        if _jit.registered_class(name) is None or not self._has_method("__getstate__"):
            raise RuntimeError(
                f"Tried to serialize object {name} which does not have a __getstate__ method defined: a class that is "
                "registered from C++ gets one by def_pickle"
            )
        return _restored, (name, self._c.get("__getstate__")())


_classes = {}  # name -> subclass of ScriptObject with the special methods that a class has


def wrapped_object(c):
    """The Python object of an instance."""
    if c.held is not None:
        return c.held
    name = c.class_.name
    made = _classes.get(name)
    if made is None:
        special = _SPECIAL.intersection(m.name for m in c.class_.methods)
        made = ScriptObject
        if special:
            made = type("ScriptObject", (ScriptObject,), {n: _forwarded(n) for n in special})
            made.__module__ = ScriptObject.__module__
        _classes[name] = made
    return made(c)


def _forwarded(name):
    def call(self, *args):
        return self._c.get(name)(*args)

    call.__name__ = name
    return call


def _restored(name, state):
    """An object from its state; pickles call it."""
    found = _jit.registered_class(name)
    if found is None:
        raise RuntimeError(f"the pickle holds a {name}, which is not registered: load its library first")
    made = found.new()
    made.get("__setstate__")(state)
    return wrapped_object(made)


class ScriptClass:
    """A class that C++ registered: a call makes an object, static methods are attributes."""

    def __init__(self, found):
        self._class = found
        self.__name__ = found.name.rpartition(".")[2]
        self.__doc__ = found.doc or None

    def _type(self):
        return self._class.type

    def __call__(self, *args, **kwargs):
        made = self._class.new()
        if not any(m.name == "__init__" for m in self._class.methods):
            raise RuntimeError(f"{self._class.name} has no constructor: the C++ side registered none (torch::init)")
        made.get("__init__")(*args, **kwargs)
        return wrapped_object(made)

    def __getattr__(self, name):
        if not name.startswith("__"):
            for function in self._class.statics:
                if function.name == name:
                    return function
        raise AttributeError(f"the class {self._class.name} has no static method '{name}'")

    def __instancecheck__(self, instance):
        return isinstance(instance, ScriptObject) and instance._c.class_.name == self._class.name

    def __repr__(self):
        return f"<class '{self._class.name}'>"


def registered_class(namespace, name):
    """The class that C++ registered under a name, or None."""
    found = _jit.registered_class(f"__torch__.torch.classes.{namespace}.{name}")
    return None if found is None else ScriptClass(found)
