"""Small classes around calls: contexts as decorators, hook handles, datasets, errors of workers, overrides."""

import collections
import contextlib
import copy
import inspect
import pickle

import pytest

import tessera
from tessera import overrides
from tessera._utils import ExceptionWrapper
from tessera.utils import data
from tessera.utils._contextlib import context_decorator
from tessera.utils.hooks import RemovableHandle


def test_each_step_of_a_decorated_generator_runs_in_a_context_of_its_own():
    events = []

    @contextlib.contextmanager
    def context():
        events.append("in")
        try:
            yield
        finally:
            events.append("out")

    def source(first):
        got = yield first
        try:
            while True:
                got = yield got
                events.append(got)
        except KeyError as error:
            yield f"caught {error}"
        finally:
            events.append("end")
        return "result"

    decorated = context_decorator(context, source)
    assert inspect.isgeneratorfunction(decorated) and decorated.__name__ == "source"
    steps = decorated("a")
    assert next(steps) == "a" and events == ["in", "out"]
    assert steps.send("b") == "b" and steps.send("c") == "c" and events[4:] == ["in", "c", "out"]
    assert steps.throw(KeyError("k")) == "caught 'k'"
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == "result" and events[-3:] == ["in", "end", "out"]

    events.clear()
    steps = decorated("a")
    next(steps)
    next(steps)
    steps.close()
    assert events[-3:] == ["in", "end", "out"]
    with pytest.raises(ValueError, match="nobody catches"):
        steps = decorated("a")
        next(steps)
        steps.throw(ValueError("nobody catches"))


def test_handles_remove_their_hook_from_all_dicts_and_survive_pickling():
    hooks, more, others = collections.OrderedDict(), {}, {}

    class Kept(dict):  # a plain dict has no weak references
        pass

    more, others = Kept(), Kept()
    for extra in (more, [more, others]):
        handle = RemovableHandle(hooks, extra_dict=extra)
        for d in (hooks, more, others):
            d[handle.id] = print
        handle.remove()
        handle.remove()
        assert not hooks and not more and bool(others) == (extra is more)
        others.clear()
    first, second = copy.deepcopy(handle), pickle.loads(pickle.dumps(RemovableHandle(hooks)))
    assert first.id == handle.id and len(first.extra_dict_ref) == 2
    second.remove()  # its dict is gone
    assert RemovableHandle(hooks).id > second.id


class Rows(data.Dataset):
    def __init__(self, values, wrong=0):
        self.values, self.wrong, self.batches = values, wrong, 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]

    def __getitems__(self, indices):
        self.batches += 1
        return [self.values[i] for i in indices][self.wrong :]


def test_stacked_datasets_are_read_by_columns():
    rows = Rows([1, 2, 3])
    by_name = data.StackDataset(a=rows, b="xyz")
    assert by_name[1] == {"a": 2, "b": "y"} and len(by_name) == 3
    assert by_name.__getitems__([2, 0]) == [{"a": 3, "b": "z"}, {"a": 1, "b": "x"}] and rows.batches == 1
    assert data.StackDataset(rows, "xyz").__getitems__([0]) == [(1, "x")]
    assert data.Subset(by_name, [2, 1]).__getitems__([1]) == [{"a": 2, "b": "y"}]
    for wrong, text in [
        (lambda: data.StackDataset(), "At least one dataset"),
        (lambda: data.StackDataset([1], [1, 2]), "Size mismatch between datasets"),
        (lambda: data.StackDataset([1], a=[1]), "both types are given"),
        (lambda: data.StackDataset(Rows([1, 2], 1)).__getitems__([0, 1]), "Expected 2, got 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            wrong()
    for parts in ([], [Rows([1]), data.IterableDataset()]):
        with pytest.raises(AssertionError, match="datasets should not be|does not support IterableDataset"):
            data.ConcatDataset(parts)


def test_random_orders_come_in_pieces():
    def drawn(**options):
        return list(data.RandomSampler(range(5), generator=tessera.Generator().manual_seed(3), **options))

    generator = tessera.Generator().manual_seed(3)
    pieces = [tessera.randperm(5, generator=generator).tolist() for _ in range(3)]
    assert drawn() == pieces[0] and drawn(num_samples=12) == [*pieces[0], *pieces[1], *pieces[2][:2]]
    generator = tessera.Generator().manual_seed(3)
    pieces = [tessera.randint(5, (n,), generator=generator).tolist() for n in (32, 8)]
    assert drawn(replacement=True, num_samples=40) == [*pieces[0], *pieces[1]]
    assert list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(data.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match="num_samples should be a positive integer"):
            data.RandomSampler(range(5), num_samples=wrong)
    with pytest.raises(TypeError, match="replacement should be a boolean"):
        data.RandomSampler(range(5), replacement=1)


def test_loaders_refuse_options_that_exclude_each_other():
    for options, text in [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option"),
        ({"prefetch_factor": 2}, "only be specified in multiprocessing"),
        ({"num_workers": 1, "prefetch_factor": -2}, "prefetch_factor option should be non-negative"),
        ({"persistent_workers": True}, "needs num_workers > 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            data.DataLoader([1], **options)
    stream = data.ChainDataset([])
    for name, value in (("shuffle", True), ("sampler", [0]), ("batch_sampler", [[0]])):
        with pytest.raises(ValueError, match=f"expected unspecified {name} option"):
            data.DataLoader(stream, **{name: value})
    assert list(data.DataLoader(stream, shuffle=False)) == []


class Named(Exception):
    message = "has one"

    def __init__(self, message):
        super().__init__(message)


class Hard(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(ValueError("v"), ValueError), (KeyError("k"), KeyError), (Named("n"), Named), (Hard(1, 2), RuntimeError)],
)
def test_errors_of_workers_come_with_their_type_and_their_traceback(error, raised):
    try:
        raise error
    except Exception:
        wrapped = pickle.loads(pickle.dumps(ExceptionWrapper(where="over there")))
    with pytest.raises(raised) as caught:
        wrapped.reraise()
    text = str(caught.value)
    assert text.startswith(f"Caught {type(error).__name__} over there.\nOriginal Traceback") and "raise error" in text


def test_functions_join_in_with_torch_function():
    class Own:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, args, kwargs

    @overrides.wrap_torch_function(lambda a, b=None: (a, b))
    def public(a, b=None):
        """Its text."""
        return "plain"

    own = Own()
    assert public(1) == "plain" and public.__doc__ == "Its text."
    assert public(1, b=own) == (public, (1,), {"b": own})
    with pytest.raises(TypeError):
        public()


def test_factories_are_found_in_the_registry():
    ignored = overrides.get_ignored_functions()
    for (
        name
    ) in "empty zeros ones full eye arange linspace rand randn randint randperm hann_window tril_indices".split():
        assert getattr(tessera, name) in ignored, name
    for name in "add zeros_like empty_like matmul cat where".split():
        assert getattr(tessera, name) not in ignored, name
        assert getattr(tessera, name) in overrides.get_testing_overrides(), name
    assert overrides.get_default_nowrap_functions() >= {tessera.Tensor.grad.__get__}
