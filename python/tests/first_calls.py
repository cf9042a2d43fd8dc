"""Programs whose first call of something lets go of the interpreter's lock: more than 16,384 elements, in a process in
which nothing else ran before.

Each is a text of its own, for test_first_calls.py and smoke.py to run in a fresh process, and checks what it computed.
"""

import os
import subprocess
import sys

PREAMBLE = """
import tessera
x = tessera.arange(300 * 64, dtype=tessera.float32).reshape(300, 64)
"""

PROGRAMS = {
    "index_with_a_permutation": """
        p = tessera.randperm(300)
        assert x[p].shape == (300, 64) and x[p][7].tolist() == x[p[7].item()].tolist()
    """,
    "index_with_a_mask": """
        y = x[x >= 64]
        assert y.shape == (299 * 64,) and y[0].item() == 64
    """,
    "index_with_a_list_and_a_slice": """
        assert x[[2, 1] * 150, 1:].shape == (300, 63)
    """,
    "index_where_gradients_are_recorded": """
        x.requires_grad_()
        x[tessera.arange(300).flip(0)].sum().backward()
        assert x.grad.sum().item() == 300 * 64
    """,
    "select_and_slice_where_gradients_are_recorded": """
        x.requires_grad_()
        x[1:][:, 2:].sum().backward()
        assert x.grad.sum().item() == 299 * 62
    """,
    "assign_a_number": """
        x[1:] = 2
        assert x[1:].sum().item() == 2 * 299 * 64
    """,
    "assign_a_tensor": """
        x[:] = tessera.ones(64)
        assert x.sum().item() == 300 * 64
    """,
    "assign_at_indices": """
        x[tessera.arange(300)] = tessera.ones(300, 64)
        assert x.sum().item() == 300 * 64
    """,
    "assign_at_a_mask": """
        x[x > 10] = 1.0
        assert x.max().item() == 10
    """,
    "assign_a_tensor_of_another_dtype_at_a_mask": """
        x[x > 10] = tessera.tensor(1, dtype=tessera.int64)
        assert x.max().item() == 10
    """,
    "module_to_a_dtype": """
        from tessera import nn
        m = nn.Linear(200, 200).to(tessera.float64)
        assert m.weight.dtype == tessera.float64
        assert m.half().weight.dtype == tessera.float16
    """,
    "tensor_to_a_dtype": """
        assert x.to(tessera.float64).dtype == tessera.float64 and x.double().sum().item() == 184310400
    """,
    "tensor_of_a_tensor": """
        import warnings
        warnings.simplefilter("ignore")
        assert tessera.tensor(x, dtype=tessera.float64).dtype == tessera.float64
        assert tessera.as_tensor(x, dtype=tessera.int64).dtype == tessera.int64
    """,
    "clone_and_copy": """
        import copy
        assert copy.deepcopy(x).equal(x) and x.clone().copy_(x).equal(x)
    """,
    "legacy_type_conversions": """
        assert x.type(tessera.DoubleTensor).dtype == tessera.float64 and x.int().dtype == tessera.int32
    """,
    "reduce_and_compare": """
        assert (x == x).all() and x.max(dim=1).values.shape == (300,) and x.unique().numel() == 300 * 64
    """,
    "an_error_without_the_lock": """
        beyond = tessera.full((20000,), 300)
        for wrong in (lambda: x[beyond[:300]], lambda: x @ x, lambda: x.index_select(0, beyond)):
            try:
                wrong()
            except (IndexError, RuntimeError):
                continue
            raise AssertionError("no error")
    """,
    "a_warning_without_the_lock": """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tessera.add(x, x, out=tessera.empty(3))
        assert "resized" in str(caught[0].message)
    """,
    "a_warning_that_is_an_error": """
        import warnings
        warnings.simplefilter("error")
        try:
            tessera.add(x, x, out=tessera.empty(3))
        except UserWarning:
            pass
        else:
            raise AssertionError("no error")
    """,
    "backward_with_hooks": """
        seen = []
        x.requires_grad_()
        x.register_hook(lambda g: seen.append("leaf"))
        x.register_post_accumulate_grad_hook(lambda t: seen.append("after"))
        y = x * 2
        y.register_hook(lambda g: g * 3)
        y.grad_fn.register_prehook(lambda g: seen.append("pre"))
        y.grad_fn.register_hook(lambda a, b: seen.append("post"))
        y.sum().backward()
        assert seen == ["pre", "post", "leaf", "after"] and x.grad[0, 0].item() == 6
    """,
    "saved_tensor_hooks": """
        from tessera.autograd.graph import saved_tensors_hooks
        x.requires_grad_()
        arrays = (lambda t: t.numpy(force=True), tessera.from_numpy), (lambda t: [t], lambda p: p[0])
        with saved_tensors_hooks(*arrays[0 if NUMPY else 1]):
            y = x * x
        y.sum().backward()
        assert x.grad.equal(2 * x.detach())
    """,
    "a_function_of_the_user": """
        class Twice(tessera.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(a)
                return a * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2 + 0 * ctx.saved_tensors[0]

        x.requires_grad_()
        Twice.apply(x).sum().backward()
        assert x.grad[3, 3].item() == 2
    """,
    "anomaly_mode": """
        x.requires_grad_()
        with tessera.autograd.detect_anomaly():
            (x * 2).sum().backward()
        assert x.grad[3, 3].item() == 2
    """,
    "an_operator_of_the_user": """
        @tessera.library.custom_op("first::twice", mutates_args=())
        def twice(a: tessera.Tensor) -> tessera.Tensor:
            return a * 2

        assert twice(x).equal(x * 2)
    """,
    "a_kernel_in_python_for_an_operator": """
        lib = tessera.library.Library("aten", "IMPL")
        lib.impl("abs", lambda a: -a, "CPU")
        assert x.abs().equal(-x)
    """,
    "dispatch_mode": """
        from tessera.utils._python_dispatch import TorchDispatchMode

        names = []
        class Names(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                names.append(func.__name__)
                return func(*args, **(kwargs or {}))

        with Names():
            x[tessera.randperm(300)]
            x + x
        assert "index.Tensor" in names and "add.Tensor" in names
    """,
    "function_mode": """
        from tessera.overrides import TorchFunctionMode

        class Count(TorchFunctionMode):
            calls = 0
            def __torch_function__(self, func, types, args=(), kwargs=None):
                Count.calls += 1
                return func(*args, **(kwargs or {}))

        with Count():
            x[tessera.randperm(300)]
        assert Count.calls == 2
    """,
    "subclass": """
        class Mine(tessera.Tensor):
            pass

        assert type(x.as_subclass(Mine)[tessera.randperm(300)]) is Mine
    """,
    "train_a_step": """
        from tessera import nn
        m = nn.Sequential(nn.Linear(64, 300), nn.ReLU(), nn.BatchNorm1d(300), nn.Dropout(0.5), nn.Linear(300, 10))
        optimizer = tessera.optim.AdamW(m.parameters(), lr=1e-3)
        nn.functional.cross_entropy(m(x / 1000), tessera.arange(300) % 10).backward()
        optimizer.step()
        assert all(p.grad is not None for p in m.parameters())
    """,
    "convolve_and_attend": """
        from tessera.nn import functional as F
        assert F.conv2d(x.reshape(3, 1, 100, 64), tessera.ones(4, 1, 3, 3), padding=1).shape == (3, 4, 100, 64)
        q = x.reshape(1, 2, 150, 64) / 1e4
        assert F.scaled_dot_product_attention(q, q, q).shape == q.shape
    """,
    "dataloader": """
        from tessera.utils.data import DataLoader, TensorDataset
        batches = list(DataLoader(TensorDataset(x, tessera.arange(300)), batch_size=280, shuffle=True))
        assert [len(b[1]) for b in batches] == [280, 20] and batches[0][0][0, 0].item() == 64 * batches[0][1][0].item()
    """,
    "dataloader_workers": """
        from tessera.utils.data import DataLoader, TensorDataset
        batches = list(DataLoader(TensorDataset(x, tessera.arange(300)), batch_size=280, num_workers=2))
        assert [len(b[1]) for b in batches] == [280, 20] and batches[0][0].equal(x[:280])
    """,
    "save_and_load": """
        import io
        file = io.BytesIO()
        tessera.save({"x": x}, file)
        file.seek(0)
        assert tessera.load(file)["x"].equal(x)
    """,
    "buffers_let_go_in_another_thread": """
        import array, threading
        numbers = array.array("f", bytes(80000))
        held = [tessera.frombuffer(numbers, dtype=tessera.float32), tessera.from_dlpack(x.__dlpack__())]
        held.append(held[0][5:])
        t = threading.Thread(target=held.clear)
        t.start()
        t.join()
        assert not held
    """,
    "two_threads_at_once": """
        import threading
        start = threading.Barrier(2)
        results = []
        def work():
            start.wait()
            results.append((x[tessera.arange(300)] * 2).sum().item())
        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert len(results) == 2 and results[0] == results[1]
    """,
    "graphs_and_hooks_alive_at_the_end": """
        x.requires_grad_()
        x.kept = [x]
        y = x * x
        y.register_hook(lambda g: g)
        y.grad_fn.metadata["y"] = y
        tessera.library._keep = y.grad_fn
        t = tessera.frombuffer(bytearray(80000), dtype=tessera.float32)
    """,
    "threads_that_compute_at_the_end": """
        import threading, time
        big = tessera.ones(400, 400)
        big @ big
        def work():
            while True:
                big @ big
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.05)
    """,
    "threads_that_train_at_the_end": """
        import threading, time
        from tessera import nn
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4)))

        class Twice(tessera.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a * sum([1] * 2)

            @staticmethod
            def backward(ctx, g):
                return g * sum([1] * 2)

        def work():
            while True:
                y = Twice.apply(model(tessera.ones(2, 4)))
                y.register_hook(lambda g: sum([1] * 2) * g)
                y.sum().backward()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.05)
    """,
}

if sys.version_info < (3, 11):
    # A daemon thread of Python 3.10 that waits for the lock while the interpreter ends reads freed memory afterwards,
    # a program of three empty loops as well: what these programs would show there is that.
    for name in [name for name in PROGRAMS if name.startswith("threads_that_")]:
        del PROGRAMS[name]


def run(name):
    """The finished process of one program (its output is text). Warnings of Python's own development mode are errors in
    it.
    """
    body = PREAMBLE + "\n".join(line[8:] for line in PROGRAMS[name].split("\n"))
    if "NUMPY" in body:
        body = "import importlib.util\nNUMPY = importlib.util.find_spec('numpy') is not None\n" + body
    return subprocess.run(
        [sys.executable, "-X", "dev", "-X", "faulthandler", "-c", body],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
