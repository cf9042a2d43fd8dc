"""DataLoader: workers, transport, errors, order."""

import collections
import os
import random

import pytest
import tessera
from tessera.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)


class Squares(Dataset):
    def __init__(self, n=10):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return tessera.tensor(i * i)


class Large(Dataset):
    """Batches of more than the memory-file limit, a shared storage and a view of a large one."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        base = tessera.full((300, 300), float(i))
        return base


class Failing(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 2:
            raise KeyError("bad item")
        return i


class Dying(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        os._exit(3)


class Slow(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        import time

        time.sleep(30)


class Draws(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return tessera.tensor([int(tessera.randint(0, 10**6, (1,))), random.randrange(10**6), get_worker_info().seed])


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


def test_workers_keep_order_and_values():
    assert [b.tolist() for b in DataLoader(Squares(9), batch_size=2, num_workers=2)] == [
        [0, 1],
        [4, 9],
        [16, 25],
        [36, 49],
        [64],
    ]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods(method):
    loader = DataLoader(Squares(3), num_workers=1, multiprocessing_context=method)
    assert [b.item() for b in loader] == [0, 1, 4]


def test_large_batches_arrive_whole():
    batches = list(DataLoader(Large(), batch_size=2, num_workers=1))
    assert [b.shape for b in batches] == [(2, 300, 300)] * 2
    assert (batches[1][1] == 3.0).all()
    batches[0].fill_(7.0)  # memory of our own
    assert (batches[1][0] == 2.0).all()


def test_errors_keep_their_type_and_traceback():
    with pytest.raises(KeyError, match="(?s)Caught KeyError in DataLoader worker process 0.*bad item"):
        list(DataLoader(Failing(), num_workers=1))


def test_dead_and_slow_workers():
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(DataLoader(Dying(), num_workers=1))
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        next(iter(DataLoader(Slow(), num_workers=1, timeout=1)))


def test_worker_streams_depend_on_the_seed_alone():
    def run():
        tessera.manual_seed(5)
        return tessera.cat(list(DataLoader(Draws(), batch_size=2, num_workers=2))).tolist()

    first = run()
    assert first == run() and len({tuple(row) for row in first}) == 6


def test_persistent_workers_and_shuffle():
    tessera.manual_seed(0)
    loader = DataLoader(Squares(8), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
    pids = [worker.pid for worker in iter(loader)._workers]
    first, second = tessera.cat(list(loader)).tolist(), tessera.cat(list(loader)).tolist()
    assert sorted(first) == sorted(second) == [i * i for i in range(8)] and first != second
    assert pids == [worker.pid for worker in loader._iterator._workers]


def test_iterable_dataset_over_workers():
    assert sorted(int(v) for v in DataLoader(Stream(7), num_workers=2, batch_size=None)) == list(range(7))
    assert [b.tolist() for b in DataLoader(Stream(5), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]


def test_stopping_early_ends_the_workers():
    iterator = iter(DataLoader(Large(), num_workers=2))
    next(iterator)
    workers = iterator._workers
    del iterator
    assert not any(worker.is_alive() for worker in workers)


def test_collate_structures():
    Point = collections.namedtuple("Point", "x y")
    out = default_collate(
        [{"p": Point(1, 2.0), "s": "a", "l": [1, (2,)]}, {"p": Point(3, 4.0), "s": "b", "l": [5, (6,)]}]
    )
    assert out["p"].x.tolist() == [1, 3] and out["p"].y.dtype == tessera.float64 and out["s"] == ["a", "b"]
    assert out["l"][0].tolist() == [1, 5] and out["l"][1][0].tolist() == [2, 6]
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="default_collate"):
        default_collate([object()])


@pytest.mark.parametrize("replacement", [True, False])
def test_endless_random_samplers_draw_as_they_go(replacement):
    endless = iter(RandomSampler(range(3), replacement=replacement, num_samples=10**15))
    assert {next(endless) for _ in range(200)} == {0, 1, 2}


def test_samplers_follow_the_generator():
    def draw():
        return list(RandomSampler(range(10), generator=tessera.Generator().manual_seed(1)))

    assert draw() == draw() and sorted(draw()) == list(range(10))
    assert list(BatchSampler(SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(WeightedRandomSampler([0.0, 1.0], 3)) == [1, 1, 1]
    assert [len(part) for part in random_split(range(10), [0.35, 0.65])] == [4, 6]


def test_datasets():
    both = TensorDataset(tessera.arange(3), tessera.arange(3) * 2)
    assert [int(v) for v in both[2]] == [2, 4]
    joined = ConcatDataset([Squares(2), Squares(3)])
    assert len(joined) == 5 and joined[-1].item() == 4
    with pytest.raises(AssertionError):
        TensorDataset(tessera.zeros(2), tessera.zeros(3))


@pytest.mark.parametrize(
    "options",
    [
        dict(shuffle=True, sampler=[0]),
        dict(batch_sampler=[[0]], batch_size=2),
        dict(num_workers=-1),
        dict(timeout=-1),
        dict(prefetch_factor=2),
        dict(persistent_workers=True),
        dict(batch_size=None, drop_last=True),
    ],
)
def test_contradictory_options(options):
    with pytest.raises(ValueError):
        DataLoader(Squares(), **options)
