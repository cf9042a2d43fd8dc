"""Pipelines of datasets: steps, graphs, and what a DataLoader makes of them."""

import os
import pickle

import pytest
import tessera
from tessera.utils import data
from tessera.utils.data import DataLoader, IterDataPipe, MapDataPipe, functional_datapipe, graph, graph_settings
from tessera.utils.data.datapipes.iter import (
    FileLister,
    Forker,
    IterableWrapper,
    Sampler,
)
from tessera.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from tessera.utils.data.datapipes.map import SequenceWrapper
from tessera.utils.data.datapipes.utils.decoder import basichandlers, imagehandler


def pipe(n=10):
    return IterableWrapper(range(n))


def even(x):
    return x % 2 == 0


def plus(a, b):
    return a + b


STEPS = {
    "map": (lambda: pipe(3).map(str), ["0", "1", "2"]),
    "map a column": (lambda: IterableWrapper([(0, 1), [2, 3]]).map(str, input_col=1), [(0, "1"), [2, "3"]]),
    "map columns": (lambda: IterableWrapper([(0, 1, 5)]).map(plus, input_col=[2, 0]), [(1, 5)]),
    "map to a column": (lambda: IterableWrapper([(0, 1)]).map(str, input_col=1, output_col=0), [("1", 1)]),
    "map to the end": (lambda: IterableWrapper([(0, 1)]).map(str, input_col=1, output_col=-1), [(0, 1, "1")]),
    "map a key": (lambda: IterableWrapper([{"a": 1}]).map(str, "a", "b"), [{"a": 1, "b": "1"}]),
    "filter": (lambda: pipe(5).filter(even), [0, 2, 4]),
    "filter by a column": (lambda: IterableWrapper([(1, 0), (2, 1)]).filter(even, input_col=1), [(1, 0)]),
    "batch": (lambda: pipe(5).batch(2), [[0, 1], [2, 3], [4]]),
    "batch, drop_last": (lambda: pipe(5).batch(2, drop_last=True), [[0, 1], [2, 3]]),
    "batch as tuples": (lambda: pipe(3).batch(2, wrapper_class=tuple), [(0, 1), (2,)]),
    "unbatch": (lambda: IterableWrapper([[0, [1]], [[2, 3]]]).unbatch(), [0, [1], [2, 3]]),
    "unbatch all": (lambda: IterableWrapper([[0, [1]], [[2, 3]]]).unbatch(unbatch_level=-1), [0, 1, 2, 3]),
    "collate": (lambda: pipe(4).batch(2).collate().map(tessera.Tensor.tolist), [[0, 1], [2, 3]]),
    "collate_fn": (lambda: pipe(4).batch(2).collate(collate_fn=sum), [1, 5]),
    "groupby": (lambda: pipe(7).groupby(lambda x: x % 3), [[0, 3, 6], [1, 4], [2, 5]]),
    "groupby, sizes": (
        lambda: pipe(7).groupby(lambda x: x % 3, group_size=2, keep_key=True),
        [(0, [0, 3]), (1, [1, 4]), (2, [2, 5]), (0, [6])],
    ),
    "groupby, full": (
        lambda: IterableWrapper(["a", "bb", "c", "dd", "e"]).groupby(len, buffer_size=3),
        [["a", "c"], ["bb", "dd"], ["e"]],
    ),
    "groupby, dropped": (
        lambda: pipe(20).groupby(
            lambda x: x % 5, buffer_size=4, group_size=3, guaranteed_group_size=2, drop_remaining=True
        ),
        [[17], [18], [19]],
    ),
    "concat": (lambda: pipe(2).concat(pipe(3)), [0, 1, 0, 1, 2]),
    "zip": (lambda: pipe(2).zip(pipe(3)), [(0, 0), (1, 1)]),
    "mux": (lambda: pipe(3).mux(pipe(2), pipe(5)), [0, 0, 0, 1, 1, 1]),
    "sampler": (lambda: Sampler(pipe(3)), [0, 1, 2]),
    "sharding_filter": (lambda: pipe(3).sharding_filter(), [0, 1, 2]),
    "shuffle, off": (lambda: pipe(5).shuffle().set_shuffle(False), [0, 1, 2, 3, 4]),
}
WITHOUT_LENGTH = ("filter", "unbatch", "groupby")


@pytest.mark.parametrize("name", STEPS)
def test_steps(name):
    make, want = STEPS[name]
    step = make()
    assert list(step) == want and list(step) == want  # once more
    assert type(step).__name__ in repr(step)
    if name.startswith(WITHOUT_LENGTH):
        with pytest.raises((TypeError, AttributeError)):
            len(step)
    else:
        assert len(step) == len(want)


BAD = {
    "output_col goes with input_col": (ValueError, lambda: pipe().map(str, output_col=1)),
    "output_col is one column": (ValueError, lambda: pipe().map(str, input_col=0, output_col=[1, 2])),
    "can't be called with 1 columns": (ValueError, lambda: pipe().map(plus)),
    "Boolean output is required": (ValueError, lambda: list(pipe().filter(abs))),
    "larger than 0": (AssertionError, lambda: pipe().batch(0)),
    "unbatch_level must be": (ValueError, lambda: list(pipe().unbatch(unbatch_level=-2))),
    "exceeds the depth": (IndexError, lambda: list(pipe().batch(2).unbatch(unbatch_level=2))),
    "group_size must be in": (AssertionError, lambda: pipe().groupby(even, group_size=0)),
    "guaranteed_group_size must be": (AssertionError, lambda: pipe().groupby(even, guaranteed_group_size=2)),
    "Failed to group": (
        RuntimeError,
        lambda: list(pipe(20).groupby(lambda x: x % 5, buffer_size=4, group_size=3)),
    ),
    "needs a pipe with a length": (AssertionError, lambda: Sampler(pipe().filter(even))),
    "a function of batches, but got dict": (TypeError, lambda: pipe().collate({"a": abs})),
    "expected at least one IterDataPipe": (ValueError, lambda: data.datapipes.iter.Zipper()),
    "expected IterDataPipes, but got list": (TypeError, lambda: pipe().zip([1])),
    "at least 1, but got 0": (ValueError, lambda: pipe().shuffle(buffer_size=0)),
    "has no attribute 'nosuch'": (AttributeError, lambda: pipe().nosuch),
    "buffer size 2 is insufficient": (BufferError, lambda: list(pipe().fork(2, buffer_size=2)[0])),
    "at least one instance": (ValueError, lambda: pipe().fork(0)),
    "copy is None": (ValueError, lambda: pipe().fork(2, copy="x")),
    "between 0 and 1": (ValueError, lambda: list(pipe().demux(2, abs)[0])),
    "not known before": (TypeError, lambda: len(pipe().demux(2, even)[0])),
    "doesn't have valid length": (TypeError, lambda: len(FileLister())),
    "Invalid mode w": (ValueError, lambda: FileLister().open_files(mode="w")),
    "doesn't take an encoding": (ValueError, lambda: FileLister().open_files(mode="rb", encoding="utf8")),
    "should be smaller": (ValueError, lambda: pipe().sharding_filter().apply_sharding(2, 2)),
    "Sharding twice": (
        RuntimeError,
        lambda: graph_settings.apply_sharding(pipe().sharding_filter().sharding_filter(), 2, 0),
    ),
    "Expected IterDataPipe or MapDataPipe": (RuntimeError, lambda: graph.traverse_dps(3)),
    "Index 10 is out of range": (IndexError, lambda: SequenceWrapper(range(5)).concat(SequenceWrapper([1]))[10]),
    "out of bound": (IndexError, lambda: SequenceWrapper(range(5)).batch(2)[3]),
    "one of the input MapDataPipes": (IndexError, lambda: SequenceWrapper(range(5)).zip(SequenceWrapper([1]))[2]),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_arguments(text):
    error, call = BAD[text]
    with pytest.raises(error, match=text.replace("(", r"\(")):
        call()


def test_shuffling_is_seeded():
    tessera.manual_seed(0)
    first = list(pipe().shuffle(buffer_size=4))
    tessera.manual_seed(0)
    step = pipe().shuffle(buffer_size=4)
    assert list(step) == first and list(step) != first and sorted(first) == list(range(10)) and first[0] < 4
    assert list(step.set_seed(3)) == list(pipe().shuffle(buffer_size=4).set_seed(3))
    batches = list(pipe().batch(5).shuffle(unbatch_level=1).set_seed(1))
    assert sorted(batches) == list(range(10)) and batches != list(range(10))


def test_forked_pipes():
    a, b = pipe(4).fork(2)
    assert list(zip(a, b)) == [(i, i) for i in range(4)] and list(a) == list(b) == [0, 1, 2, 3] and len(a) == 4
    source = [[1], [2]]
    plain, other = IterableWrapper(source, deepcopy=False).fork(2)
    assert next(iter(plain)) is source[0] and next(iter(other)) is source[0]
    for copy in ("shallow", "deep"):
        a, b = IterableWrapper(source, deepcopy=False).fork(2, copy=copy)
        assert next(iter(a)) == source[0] and next(iter(a)) is not source[0]
    only = pipe()
    assert only.fork(1) is only and isinstance(Forker(only, 2), list)
    with pytest.warns(UserWarning, match="Unlimited buffer size"):
        assert list(pipe(3).fork(2, buffer_size=-1)[1]) == [0, 1, 2]


def test_a_pass_of_one_instance_begins_again_for_all():
    a, b = pipe(3).fork(2)
    of_a, of_b = iter(a), iter(b)
    assert next(of_a) == next(of_b) == 0
    again = iter(a)
    assert list(again) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="invalidated"):
        next(of_b)


def test_demultiplexed_pipes():
    odd_last = pipe(6).demux(2, lambda x: x % 2)
    assert [list(p) for p in odd_last] == [[0, 2, 4], [1, 3, 5]]
    some = pipe(6).demux(2, lambda x: None if x == 2 else x % 2, drop_none=True)
    assert [list(p) for p in some] == [[0, 4], [1, 3, 5]]


def test_one_pass_at_a_time():
    p = pipe(3)
    first, second = iter(p), iter(p)
    assert next(second) == 0
    with pytest.raises(RuntimeError, match="another iterator has been created"):
        next(first)
    assert list(second) == [1, 2]


def test_shares():
    p = pipe().sharding_filter()
    p.apply_sharding(3, 1)
    assert list(p) == [1, 4, 7] and len(p) == 3
    p = pipe().sharding_filter()
    p.apply_sharding(2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    p.apply_sharding(2, 1, SHARDING_PRIORITIES.MULTIPROCESSING)
    assert list(p) == [3, 7] and len(p) == 2
    with pytest.raises(RuntimeError, match="cannot mix DEFAULT"):
        p.apply_sharding(2, 1)
    p = data.datapipes.iter.ShardingFilter(pipe(), SHARDING_PRIORITIES.DISTRIBUTED)
    graph_settings.apply_sharding(p.map(str), 2, 1, SHARDING_PRIORITIES.MULTIPROCESSING)
    assert len(p) == 10


def test_graphs():
    source = pipe()
    end = source.map(str).zip(source.shuffle())
    found = graph_settings.get_all_graph_pipes(graph.traverse_dps(end))
    assert len(found) == 4 and found[0] is end and source in found
    hidden = pipe().map(lambda x: (x, source))
    assert source not in graph_settings.get_all_graph_pipes(graph.traverse_dps(hidden))
    with pytest.warns(FutureWarning, match="traverse_dps"):
        assert source in graph_settings.get_all_graph_pipes(graph.traverse(hidden))
    with pytest.warns(UserWarning, match="no step of the pipeline shuffles"):
        added = graph_settings.apply_shuffle_settings(source, True)
    assert added is not source and graph_settings.apply_shuffle_settings(source, None) is source
    rng = tessera.Generator()
    orders = [list(graph_settings.apply_random_seed(added, rng.manual_seed(s))) for s in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    with pytest.warns(FutureWarning, match="apply_random_seed"):
        graph_settings.apply_shuffle_seed(added, rng)


def loaded(loader):
    return [x for batch in loader for x in batch.tolist()]


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_share_shuffle_and_seed(workers):
    p = pipe(20).shuffle().sharding_filter()

    def loader(**options):
        generator = tessera.Generator()
        generator.manual_seed(5)
        return DataLoader(p, 4, num_workers=workers, generator=generator, **options)

    first = loaded(loader())
    assert sorted(first) == list(range(20)) and first == loaded(loader()) and first != loaded(loader(shuffle=False))
    assert sorted(loaded(loader(shuffle=False))) == list(range(20))
    keep = loader(persistent_workers=bool(workers), shuffle=True)
    passes = [loaded(keep) for _ in range(3)]
    assert (
        passes[0] == first and passes[0] != passes[1] != passes[2] and all(sorted(x) == sorted(first) for x in passes)
    )
    with pytest.warns(UserWarning, match="no step of the pipeline shuffles"):
        added = DataLoader(pipe(50), 50, shuffle=True)
    assert loaded(added) != list(range(50))


def test_loaders_of_pipes_with_keys():
    p = SequenceWrapper(range(5)).map(float)
    assert [b.tolist() for b in DataLoader(p, 2)] == [[0, 1], [2, 3], [4]]
    assert sorted(loaded(DataLoader(p, 2, shuffle=True))) == [0, 1, 2, 3, 4]


def test_pipes_with_keys():
    p = SequenceWrapper({"a": 1, "b": 2})
    assert p["b"] == 2 and p.map()["b"] == 2 and len(p.map(str)) == 2 and p.map(str)["a"] == "1"
    numbers = SequenceWrapper(range(5))
    both = numbers.zip(numbers.map(str))
    assert both[1] == (1, "1") and len(both) == 5 and numbers.concat(numbers)[7] == 2
    assert numbers.batch(2)[1] == [2, 3] and numbers.batch(2)[2] == [4] and len(numbers.batch(2, drop_last=True)) == 2
    shuffled = numbers.shuffle().set_seed(1)
    assert isinstance(shuffled, IterDataPipe) and sorted(shuffled) == [0, 1, 2, 3, 4] and len(shuffled) == 5
    assert sorted(p.shuffle(indices=["a", "b"])) == [1, 2]
    assert list(numbers.shuffle().set_shuffle(False)) == [0, 1, 2, 3, 4]
    items = [[1]]
    assert SequenceWrapper(items)[0] is not items[0] and SequenceWrapper(items, deepcopy=False)[0] is items[0]
    for wrapper in (SequenceWrapper, lambda x: list(IterableWrapper(x))):
        with pytest.warns(UserWarning, match="can't be copied"):
            wrapper(i for i in ())


def test_steps_of_ones_own():
    @functional_datapipe("plus_one_for_a_test")
    class PlusOne(IterDataPipe):
        def __init__(self, source, by=1):
            self.source, self.by = source, by

        def __iter__(self):
            for x in self.source:
                yield x + self.by

    assert list(pipe(2).plus_one_for_a_test().plus_one_for_a_test(by=2)) == [3, 4]
    assert "plus_one_for_a_test" in dir(pipe())
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("map")(PlusOne)
    with pytest.raises(TypeError, match="for classes of pipes"):
        functional_datapipe("x")(int)
    with pytest.raises(NotImplementedError, match="leave it False"):
        functional_datapipe("x", enable_df_api_tracing=True)(PlusOne)
    IterDataPipe.register_function("count_for_a_test", lambda p: len(p))
    assert pipe(4).count_for_a_test() == 4 and "count_for_a_test" not in MapDataPipe.functions
    del IterDataPipe.functions["count_for_a_test"], IterDataPipe.functions["plus_one_for_a_test"]


@data.non_deterministic
class Random(IterDataPipe):
    def __iter__(self):
        yield 1


@data.non_deterministic(lambda n: n > 1)
class SometimesRandom(IterDataPipe):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        yield self.n


def test_determinism():
    assert list(Random()) == [1] and list(SometimesRandom(2)) == [2]
    with data.guaranteed_datapipes_determinism():
        assert list(SometimesRandom(0)) == [0]
        for make in (Random, lambda: SometimesRandom(2)):
            with pytest.raises(TypeError, match="is non-deterministic, but you set"):
                make()
    with pytest.raises(TypeError, match="only subclasses of IterDataPipe"):
        data.non_deterministic(int)
    with pytest.raises(TypeError, match="no class of pipes"):
        data.non_deterministic(3)
    with pytest.raises(TypeError, match="has to return a bool"):
        data.non_deterministic(lambda: 3)(Random.cls)()


class Numbers(IterDataPipe[int]):
    def __init__(self, source):
        self.source = source

    @data.runtime_validation
    def __iter__(self):
        yield from self.source


def test_types():
    @data.argument_validation
    def of_numbers(p: IterDataPipe[int | str], n: int = 0):
        return list(p)

    assert of_numbers(Numbers([1])) == [1]
    with pytest.raises(TypeError, match="Expected argument 'p' as a IterDataPipe, but found int"):
        of_numbers(3)
    with pytest.raises(TypeError, match="as a subtype of"):
        of_numbers(pipe())
    with pytest.raises(RuntimeError, match="subtype of <class 'int'>, but found 'a'"):
        list(Numbers([1, "a"]))
    with data.runtime_validation_disabled():
        assert list(Numbers([1, "a"])) == [1, "a"]
    assert data.runtime_validation_disabled()(lambda: list(Numbers(["a"])))() == ["a"]
    with pytest.raises(TypeError, match="method __iter__"):
        data.runtime_validation(len)

    class Pairs(IterDataPipe[tuple[int, list[str] | None]]):
        __init__, __iter__ = Numbers.__init__, data.runtime_validation(Numbers.__iter__.__wrapped__.__wrapped__)

    assert list(Pairs([(1, ["a"]), (2, None)])) == [(1, ["a"]), (2, None)]
    for wrong in [(1,), (1, [2]), ("a", None), 3]:
        with pytest.raises(RuntimeError):
            list(Pairs([wrong]))


def test_hooks_and_pickling():
    p = pipe(3).map(str).batch(2)
    assert [list(b) for b in pickle.loads(pickle.dumps(p))] == [["0", "1"], ["2"]]
    IterDataPipe.set_getstate_hook(lambda pipe: {"seen": True})
    try:
        assert pickle.loads(pickle.dumps(p)).seen is True
        with pytest.raises(RuntimeError, match="set already"):
            IterDataPipe.set_getstate_hook(len)
    finally:
        IterDataPipe.set_getstate_hook(None)
    IterDataPipe.set_reduce_ex_hook(lambda pipe: (str, ("reduced",)))
    try:
        assert pickle.loads(pickle.dumps(p)) == "reduced"
    finally:
        IterDataPipe.set_reduce_ex_hook(None)
    assert IterDataPipe.getstate_hook is None and MapDataPipe.reduce_ex_hook is None


def test_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("sub")
    for name, text in (("b.json", '{"x": 1}'), ("a.txt", "hello"), ("sub/c.txt", "deep"), ("n.cls", "7")):
        (tmp_path / name).write_text(text)
    tessera.save(tessera.ones(2), "t.pt")
    assert list(FileLister()) == ["./a.txt", "./b.json", "./n.cls", "./t.pt"]
    assert list(FileLister(masks=["*.txt"], recursive=True)) == ["./a.txt", "./sub/c.txt"]
    assert list(IterableWrapper(["sub", "a.txt"]).list_files(abspath=True)) == [
        str(tmp_path / "sub" / "c.txt"),
        str(tmp_path / "a.txt"),
    ]
    assert sorted(FileLister(non_deterministic=True)) == list(FileLister()) and len(FileLister(length=4)) == 4
    opened = list(FileLister(masks="*.txt").open_files())
    assert [(path, file.read()) for path, file in opened] == [("./a.txt", "hello")]
    parts = FileLister(masks="*.txt").open_files(mode="b").read_from_stream(chunk=3)
    assert list(parts) == [("./a.txt", b"hel"), ("./a.txt", b"lo")]
    decoded = dict(FileLister().open_files(mode="b").routed_decode(basichandlers))
    assert decoded.pop("./t.pt").tolist() == [1, 1]
    assert decoded == {"./a.txt": "hello", "./b.json": {"x": 1}, "./n.cls": 7}
    route = FileLister(masks="*.txt").open_files(mode="b").routed_decode()
    assert list(route) == [("./a.txt", b"hello")]
    route.add_handler(lambda key, value: key.upper() + value.decode())
    assert list(route) == [("./a.txt", "TXThello")]
    with pytest.raises(FileNotFoundError):
        list(FileLister("nosuch"))
    with pytest.raises(AssertionError, match="unknown image specification"):
        imagehandler("nosuch")


def test_chunks():
    chunk = data.DataChunk(iter([1, 2]))
    assert chunk == [1, 2] and chunk.as_str("  ") == "  [1, 2]" and list(chunk.raw_iterator()) == [1, 2]
    assert issubclass(data.DFIterDataPipe, IterDataPipe)
