"""Classes of tensors that take operators over: what is given to them, what becomes of their copies, texts and files."""

import copy
import io

import pytest
import tessera


def over(base):
    """The tensors that `base` instances in nested arguments hold."""

    def unwrap(value):
        if isinstance(value, base):
            return value.t
        if isinstance(value, (tuple, list)):
            return type(value)([unwrap(item) for item in value])
        return value

    return unwrap


class Box(tessera.Tensor):
    """Wraps what operators return; keeps it under a name that is a method of tensors as well."""

    @staticmethod
    def __new__(cls, t, requires_grad=False):
        return tessera.Tensor._make_wrapper_subclass(cls, t.shape, dtype=t.dtype, requires_grad=requires_grad)

    def __init__(self, t, requires_grad=False):
        self.t = t

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unwrap = over(Box)
        result = func(*unwrap(args), **{key: unwrap(value) for key, value in (kwargs or {}).items()})
        return cls(result) if isinstance(result, tessera.Tensor) else result

    def __repr__(self):
        return super().__repr__(tensor_contents=f"t={self.t.tolist()}")


class Opener(Box):
    """Returns what operators return, unwrapped."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unwrap = over(Box)
        return func(*unwrap(args), **{key: unwrap(value) for key, value in (kwargs or {}).items()})


def test_results_stay_as_the_class_returns_them():
    assert Box.__torch_function__ is tessera._C._disabled_torch_function_impl
    assert type(Box(tessera.ones(2)) + 1) is Box
    assert type(Opener(tessera.ones(2)) + 1) is tessera.Tensor


def test_a_class_that_speaks_of_functions_keeps_its_own():
    class Both(Box):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs)

    class Plain(tessera.Tensor):
        pass

    assert Both.__torch_function__.__func__ is Both.__dict__["__torch_function__"].__func__
    assert Plain.__torch_function__.__func__ is tessera.Tensor.__torch_function__.__func__


def test_init_subclass_of_users_gets_its_arguments():
    class Known(tessera.Tensor):
        def __init_subclass__(cls, *, mark, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.mark = mark

    class Child(Known, mark=3):
        pass

    assert Child.mark == 3
    with pytest.raises(TypeError):
        type("Wrong", (tessera.Tensor,), {}, mark=1)


def test_a_parameter_needs_detach_of_the_same_class():
    with pytest.raises(RuntimeError, match=r"requires that detach\(\) returns an instance of the same type"):
        tessera.nn.Parameter(Opener(tessera.ones(2)))


def test_text_is_what_the_class_gives():
    assert repr(Box(tessera.ones(2))) == "Box(t=[1.0, 1.0])"
    shown = repr(tessera.nn.Parameter(Box(tessera.ones(2))))
    assert shown == "Parameter(Box(t=[1.0, 1.0], requires_grad=True))"


@pytest.mark.parametrize("as_parameter", [False, True])
def test_files_and_copies(as_parameter):
    box = Box(tessera.arange(3.0))
    box = tessera.nn.Parameter(box) if as_parameter else box
    file = io.BytesIO()
    tessera.save(box, file)
    file.seek(0)
    with tessera.serialization.safe_globals([Box]):
        loaded = tessera.load(file)
    for made in (loaded, copy.deepcopy(box)):
        assert isinstance(made, Box) and made is not box
        assert made.t.tolist() == [0.0, 1.0, 2.0] and made.t is not box.t
        assert made.requires_grad == as_parameter
        assert isinstance(made, tessera.nn.Parameter) == as_parameter
    file.seek(0)
    with pytest.raises(Exception, match="Box"):
        tessera.load(file)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_optimizers_give_it_one_operator_after_the_other(kind):
    box = tessera.nn.Parameter(Box(tessera.ones(3)))
    plain = tessera.nn.Parameter(tessera.ones(3))
    for parameter in (box, plain):
        optimizer = getattr(tessera.optim, kind)([parameter], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            parameter.grad = Box(tessera.full((3,), 2.0)) if parameter is box else tessera.full((3,), 2.0)
            optimizer.step()
    assert tessera.allclose(box.t, plain.detach())
    assert not tessera.equal(box.t, tessera.ones(3))


def test_settings_are_modules_for_the_import_system():
    import importlib

    config = importlib.import_module("tessera._dynamo.config")
    config.__spec__ = config.__spec__
    with pytest.raises(AttributeError, match="does not exist"):
        config.no_such_setting = 1
