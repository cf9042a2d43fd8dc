"""tessera.cuda and tensors on devices. Without a device, the tests run once more in a child process on the emulated
one, if TESSERA_TEST_CUDA_LIBRARY names its library.
"""

import copy
import io
import os
import pickle
import subprocess
import sys
import threading
import warnings

import pytest
import tessera as torch

HAVE_DEVICE = torch.cuda.is_available()
on_device = pytest.mark.skipif(not HAVE_DEVICE, reason="no CUDA device")


def run_child(arguments, **environment):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


# This file, and tests that take a device if there is one.
ON_A_DEVICE = (
    "cuda/test_cuda.py",
    "cuda/test_cuda_namespaces.py",
    "cuda/test_cuda_linalg.py",
    "cuda/test_cuda_streams.py",
    "operators/test_foreach.py",
    "operators/test_products.py",
)


@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_on_the_emulated_device(name):
    library = os.environ.get("TESSERA_TEST_CUDA_LIBRARY")
    if HAVE_DEVICE:
        pytest.skip("the tests of this file run on a device already")
    if not library or not os.path.exists(library):
        pytest.skip("no emulated device: TESSERA_TEST_CUDA_LIBRARY names no file")
    file = os.path.join(os.path.dirname(os.path.dirname(__file__)), name)
    child = run_child(["-m", "pytest", "-q", "-p", "no:cacheprovider", file], TESSERA_CUDA_LIBRARY=library)
    print(child.stdout[-4000:])
    assert child.returncode == 0 and " passed" in child.stdout


def run_script(text, **environment):
    child = run_child(["-c", text], **environment)
    assert child.returncode == 0, child.stdout
    return child.stdout


# ---- devices
# ----------------------------------------------------------------------------------------------------------------


def test_without_a_library_there_are_no_devices():
    run_script(
        """
import tessera as t
assert not t.cuda.is_available() and t.cuda.device_count() == 0 and t.cuda.default_generators == ()
t.cuda.manual_seed_all(3)
t.manual_seed(4)
""",
        TESSERA_CUDA_LIBRARY="none",
    )


@on_device
def test_devices():
    cuda = torch.cuda
    assert cuda.device_count() >= 1 and cuda.current_device() == 0 and cuda.is_initialized()
    found = cuda.get_device_properties()
    assert found.name == cuda.get_device_name(0) and (found.major, found.minor) == cuda.get_device_capability("cuda")
    assert (
        found.total_memory > 0
        and found.multi_processor_count > 0
        and found.warp_size == 32
        and repr(found).startswith("_CudaDeviceProperties(name='")
    )
    compiled = cuda.get_arch_list()
    assert compiled and all(arch.startswith(("sm_", "compute_")) for arch in compiled)
    assert f"code={compiled[0]}" in cuda.get_gencode_flags()
    with pytest.raises(AssertionError):
        cuda.get_device_name(cuda.device_count())
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal") as e:
        cuda.set_device(cuda.device_count())
    assert e.value.error_code == 101
    with pytest.raises(RuntimeError):
        torch.ones(1, device=f"cuda:{cuda.device_count()}")
    with pytest.raises(ValueError):
        cuda.set_device("cpu")
    assert not cuda.can_device_access_peer(0, 0)
    with cuda.device(0), cuda.device(-1), cuda.device("cuda"), cuda.device_of(torch.ones(1)):
        assert cuda.current_device() == 0
    assert (
        torch.accelerator.current_accelerator() == torch.device("cuda")
        and torch.accelerator.current_device_index() == 0
    )
    assert torch.get_device_module() is cuda and torch.version.cuda and torch.backends.cuda.is_built()


@on_device
def test_initialization_is_lazy():
    run_script(
        "import tessera as t\nassert t.cuda.is_available() and not t.cuda.is_initialized()\nt.ones(1, "
        "device='cuda')\nassert t.cuda.is_initialized()"
    )


@on_device
def test_a_fork_cannot_use_devices():
    run_script("""
import os, tessera as t
t.ones(1, device='cuda')
child = os.fork()
if child == 0:
    for use in (t.cuda.init, t.cuda.synchronize, lambda: t.ones(1, device='cuda')):
        try:
            use()
        except RuntimeError as e:
            if 'Cannot re-initialize CUDA in forked subprocess' not in str(e):
                os._exit(1)
        else:
            os._exit(2)
    t.ones(3).sum().item()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")


# ---- streams and events
# -----------------------------------------------------------------------------------------------------


@on_device
def test_streams_and_events_of_the_accelerator():
    start, end, stream = torch.Event(enable_timing=True), torch.Event("cuda", enable_timing=True), torch.Stream()
    assert start.query() and start.device is None and type(start) is torch.Event and start.event_id == 0
    assert isinstance(stream, torch.cuda.Stream) and (stream.device_index, stream.device_type) == (0, 1)
    assert stream.native_handle == stream.stream_id == stream.cuda_stream and stream.device.type == "cuda"
    start.record()
    end.record(stream)
    end.synchronize()
    assert isinstance(start.elapsed_time(end), float) and end.device == stream.device and end.event_id != 0
    start.wait(stream)
    stream.wait_event(start)
    event = stream.record_event()
    assert type(event) is torch.cuda.Event and event.cuda_event == event.event_id
    with pytest.raises(RuntimeError, match="accelerator cuda"):
        torch.Event("cpu")
    index, values = torch.tensor([[0, 1]], device="cuda"), torch.ones(2, device="cuda")
    assert isinstance(torch.cuda.sparse.FloatTensor(index, values, (3,)), torch.cuda.sparse.FloatTensor)


@on_device
def test_streams():
    cuda = torch.cuda
    default = cuda.default_stream()
    stream, other = cuda.Stream(), cuda.Stream(priority=-1)
    assert cuda.current_stream() == default and stream != default and default.cuda_stream == 0
    assert stream.device == torch.device("cuda", 0) and other.priority == -1 and stream.priority == 0
    least, greatest = cuda.Stream.priority_range()
    assert least == 0 > greatest
    assert repr(stream) == f"<tessera.cuda.Stream device=cuda:0 cuda_stream={stream.cuda_stream:#x}>"
    with cuda.stream(stream):
        assert cuda.current_stream() == stream and hash(cuda.current_stream()) == hash(stream)
        with cuda.stream(None), other:
            assert cuda.current_stream() == other
        x = torch.arange(1000, device="cuda") * 2
    assert cuda.current_stream() == default
    other.wait_stream(stream)
    default.wait_stream(other)
    assert x.sum().item() == 999000
    stream.synchronize()
    assert stream.query()
    external = cuda.ExternalStream(stream.cuda_stream)
    assert external == stream and cuda.get_stream_from_external(stream.cuda_stream) == stream
    seen = []
    thread = threading.Thread(target=lambda: seen.append(cuda.current_stream() == default))
    with cuda.stream(stream):
        thread.start()
        thread.join()
    assert seen == [True]


@on_device
def test_events():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    assert start.query() and start.device is None and repr(start) == "<tessera.cuda.Event uninitialized>"
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    torch.ones(100, device="cuda").sum()
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0 and start.device == torch.device("cuda:0") and start.cuda_event
    plain = torch.cuda.current_stream().record_event()
    torch.cuda.Stream().wait_event(plain)
    plain.wait()
    plain.synchronize()
    with pytest.raises(ValueError, match="enable_timing"):
        plain.elapsed_time(end)


@on_device
def test_waiting_can_warn():
    x = torch.ones(2, device="cuda")
    try:
        torch.cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="synchronizing"):
            x.tolist()
        torch.cuda.set_sync_debug_mode(2)
        with pytest.raises(RuntimeError, match="synchronizing"):
            x.item() if x.numel() == 1 else x.tolist()
        with pytest.raises(RuntimeError):
            torch.cuda.set_sync_debug_mode("sometimes")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.get_sync_debug_mode() == 0


# ---- memory
# -----------------------------------------------------------------------------------------------------------------


@on_device
def test_memory_counters():
    cuda = torch.cuda
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert (
        cuda.memory_allocated() == before + (1 << 20)
        and cuda.max_memory_allocated() >= before + (1 << 20)
        and cuda.memory_reserved() >= cuda.memory_allocated()
    )
    del x
    assert cuda.memory_allocated() == before
    stats = cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == before and list(stats) == sorted(stats)
    assert cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] == before
    assert "Allocated memory" in cuda.memory_summary() and len(cuda.memory_summary(abbreviated=True)) < len(
        cuda.memory_summary()
    )
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    cuda.empty_cache()
    x = torch.ones(1, device="cuda")
    snapshot = cuda.memory_snapshot()
    assert all(
        s["segment_type"] in ("small", "large") and sum(b["size"] for b in s["blocks"]) == s["total_size"]
        for s in snapshot
    )
    assert cuda.memory._snapshot()["segments"] and cuda.get_allocator_backend() == "native"
    del x
    address = cuda.caching_allocator_alloc(100)
    assert cuda.memory_allocated() == before + 512
    cuda.caching_allocator_delete(address)
    assert cuda.memory_allocated() == before


@on_device
def test_out_of_memory():
    total = torch.cuda.mem_get_info()[1]
    with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory. Tried to allocate"):
        torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    torch.cuda.set_per_process_memory_fraction(0.5)
    try:
        assert torch.cuda.get_per_process_memory_fraction() == 0.5
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(int(total * 0.6), dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError):
        torch.cuda.set_per_process_memory_fraction(1.5)


@on_device
def test_memory_pools():
    pool = torch.cuda.MemPool()
    assert pool.use_count() == 1 and pool.snapshot() == []
    with torch.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = torch.empty(1000, device="cuda")
    y = torch.empty(1000, device="cuda")
    (segment,) = pool.snapshot()
    assert (
        segment["segment_pool_id"] == pool.id
        and segment["address"] <= x.data_ptr() < segment["address"] + segment["total_size"]
    )
    assert not segment["address"] <= y.data_ptr() < segment["address"] + segment["total_size"]


@on_device
@pytest.mark.skipif(
    "emulated" not in os.environ.get("TESSERA_CUDA_LIBRARY", ""),
    reason="kernels of a real device cannot use malloc's memory",
)
def test_pools_of_other_allocators():
    libc = torch.cuda.memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free")
    pool = torch.cuda.MemPool(libc.allocator())
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(1000, device="cuda")
    assert (x + 1).sum().item() == 2000 and pool.snapshot()[0]["address"] == x.data_ptr()


@on_device
def test_expandable_segments():
    run_script(
        """
import tessera as t
x = t.ones(3 << 20, device='cuda')
y = t.ones(3 << 20, device='cuda')
assert all(s['is_expandable'] for s in t.cuda.memory_snapshot())
assert t.cuda.memory_stats()['segment.large_pool.current'] == 1 and (x + y).sum().item() == 6 << 20
del x, y
t.cuda.empty_cache()
assert t.cuda.memory_reserved() == 0
""",
        PYTORCH_ALLOC_CONF="expandable_segments:True",
    )


@on_device
def test_memory_history():
    memory = torch.cuda.memory
    memory._record_memory_history(max_entries=10)
    try:
        x = torch.ones(1000, device="cuda")
        address = x.data_ptr()
        del x
        found = [e["action"] for e in memory._snapshot()["device_traces"][0] if e.get("addr") == address]
        assert found[-3:] == ["alloc", "free_requested", "free_completed"]
        for _ in range(10):
            torch.ones(1, device="cuda")
        assert len(memory._snapshot()["device_traces"][0]) == 10
    finally:
        memory._record_memory_history(enabled=None, clear_history=True)
    torch.ones(1, device="cuda")
    assert memory._snapshot()["device_traces"][0] == []


@on_device
def test_other_allocators():
    run_script("""
import tessera as t
t.cuda.memory.caching_allocator_enable(False)
x = t.ones(1000, device='cuda')
assert t.cuda.memory_reserved() == 0 and x.sum().item() == 1000
del x
try:
    t.cuda.memory.change_current_allocator(t.cuda.memory.CUDAPluggableAllocator('libc.so.6', 'malloc', 'free'))
except RuntimeError as e:
    assert 'already initialized' in str(e)
else:
    raise AssertionError
""")


@on_device
def test_pinned_memory():
    x = torch.arange(6.0).reshape(2, 3)
    p = x.pin_memory()
    assert p.is_pinned() and not x.is_pinned() and p.pin_memory() is p and torch.equal(p, x) and p.t().is_pinned()
    for made in (
        torch.empty(2, pin_memory=True),
        torch.zeros(2, pin_memory=True),
        torch.tensor([1.0], pin_memory=True),
        torch.rand(2, pin_memory=True),
        torch.empty_like(x, pin_memory=True),
        torch.empty_strided((2, 2), (1, 2), pin_memory=True),
    ):
        assert made.is_pinned() and made.device.type == "cpu"
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()
    y = p.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(y.cpu(), x)
    back = torch.empty(2, 3, pin_memory=True)
    back.copy_(y * 2, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, x * 2)
    assert (
        x.untyped_storage().pin_memory().is_pinned() and torch.cuda.host_memory_stats()["allocated_bytes.current"] > 0
    )
    batch = next(iter(torch.utils.data.DataLoader(list(range(4)), batch_size=2, pin_memory=True)))
    assert batch.is_pinned()


# ---- tensors
# ----------------------------------------------------------------------------------------------------------------


@on_device
def test_tensors_move():
    x = torch.arange(4.0)
    y = x.cuda()
    assert (
        y.device == torch.device("cuda", 0)
        and y.cuda() is y
        and y.get_device() == 0
        and y.type() == "torch.cuda.FloatTensor"
        and isinstance(y, torch.cuda.FloatTensor)
    )
    assert torch.equal(y.cpu(), x) and y.to("cpu", torch.int64).tolist() == [0, 1, 2, 3] and x.to(0).is_cuda
    assert torch.cuda.FloatTensor([1, 2]).is_cuda and repr(y) == "tensor([0., 1., 2., 3.], device='cuda:0')"
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda
    with pytest.raises(TypeError, match="copy the tensor to host memory first"):
        y.numpy()
    with pytest.raises(RuntimeError, match="same device"):
        x + y
    stream = torch.cuda.Stream()
    y.record_stream(stream)
    with pytest.raises(NotImplementedError):
        x.record_stream(stream)


@on_device
def test_storages():
    x = torch.arange(4, dtype=torch.uint8, device="cuda")
    s = x.untyped_storage()
    assert (
        s.tolist() == [0, 1, 2, 3]
        and s[2] == 2
        and s.is_cuda
        and s.cpu().tolist() == [0, 1, 2, 3]
        and s.clone().device == x.device
    )
    s[1] = 9
    s[2:4] = 5
    assert x.tolist() == [0, 9, 5, 5] and s[1:3].tolist() == [9, 5]
    s.fill_(7)
    assert x.tolist() == [7] * 4
    s.copy_(torch.tensor([1, 2, 3, 4], dtype=torch.uint8).untyped_storage())
    s.resize_(6)
    assert s.nbytes() == 6 and s.tolist()[:4] == [1, 2, 3, 4]
    assert torch.ones(2).untyped_storage().cuda().device == torch.device("cuda:0")


@on_device
def test_training_step_is_the_cpus():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    twin = copy.deepcopy(model).cuda()
    x, target = torch.randn(7, 5), torch.tensor([0, 1, 2, 0, 1, 2, 0])
    for net, a, b in ((model, x, target), (twin, x.cuda(), target.cuda())):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(a), b).backward()
            optimizer.step()
    for p, q in zip(model.parameters(), twin.parameters()):
        assert q.is_cuda and torch.allclose(p, q.cpu(), atol=1e-6)


@on_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_attention_is_the_cpus(dtype):
    attention = torch.nn.functional.scaled_dot_product_attention
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-12, torch.float16: 3e-3, torch.bfloat16: 3e-2}[dtype]
    random = torch.Generator().manual_seed(3)
    cases = [
        ((2, 2, 20, 16), (2, 2, 20, 16), {"is_causal": True}),
        (
            (2, 4, 9, 24),
            (2, 2, 70, 24),
            {"enable_gqa": True, "attn_mask": torch.rand(2, 1, 9, 70, generator=random) > 0.3},
        ),
        ((3, 1, 40), (3, 300, 40), {"attn_mask": torch.randn(300, generator=random)}),
        ((2, 1, 5, 8), (1, 3, 6, 8), {"scale": 0.3}),
    ]
    for query_size, key_size, options in cases:
        here = [
            torch.randn(size, generator=random).to(dtype).requires_grad_() for size in (query_size, key_size, key_size)
        ]
        there = [t.detach().cuda().requires_grad_() for t in here]
        moved = {k: v.cuda() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
        expected, out = attention(*here, **options), attention(*there, **moved)
        assert out.is_cuda and out.dtype == dtype
        node = (
            out.grad_fn if out.dim() == 4 else out.grad_fn.next_functions[0][0]
        )  # a dimension was added and taken away
        assert "FlashAttention" in node.name()
        grad = torch.randn(expected.shape, generator=random).to(dtype)
        expected.backward(grad)
        out.backward(grad.cuda())
        for a, b in zip([out] + [t.grad for t in there], [expected] + [t.grad for t in here]):
            largest = b.detach().double().abs().max().item()
            assert (a.detach().cpu().double() - b.detach().double()).abs().max().item() <= tolerance * largest * 2, (
                query_size,
                dtype,
            )
    assert torch.autograd.gradgradcheck(
        attention, [torch.randn(1, 2, 3, 4, dtype=torch.float64, device="cuda", requires_grad=True) for _ in range(3)]
    )


@on_device
def test_kinds_of_attention():
    from tessera.nn.attention import SDPBackend, sdpa_kernel

    backends, attention = torch.backends.cuda, torch.nn.functional.scaled_dot_product_attention
    x = torch.randn(1, 2, 5, 8, device="cuda", requires_grad=True)
    params = backends.SDPAParams(x, x, x, None, 0.0, True, False)
    assert backends.is_flash_attention_available()
    assert all(
        f(params)
        for f in (
            backends.can_use_flash_attention,
            backends.can_use_efficient_attention,
            backends.can_use_cudnn_attention,
        )
    )
    with sdpa_kernel(SDPBackend.MATH):
        assert not backends.can_use_flash_attention(params)
        assert "Flash" not in attention(x, x, x).grad_fn.name()
    for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(kind):
            assert "Flash" in attention(x, x, x, is_causal=True).grad_fn.name()
            assert attention(x, x, x, dropout_p=0.5).shape == x.shape
    with pytest.warns(UserWarning, match="dropout"):
        assert not backends.can_use_flash_attention(backends.SDPAParams(x, x, x, None, 0.5, True, False), debug=True)


@on_device
def test_bad_index_is_reported_when_the_device_is_waited_for():
    x = torch.arange(3.0, device="cuda")
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 3"):
        x[torch.tensor([7], device="cuda")]
        torch.cuda.synchronize()
    assert (x + 1).tolist() == [1, 2, 3]


@on_device
def test_checkpoints():
    file = io.BytesIO()
    x = torch.arange(5.0, device="cuda")
    torch.save({"x": x, "view": x[1:3]}, file)
    by_tag = lambda storage, tag: storage.cuda() if tag == "cuda:0" else None  # noqa: E731
    for where, kind in (
        (None, "cuda"),
        ("cpu", "cpu"),
        ({"cuda:0": "cpu"}, "cpu"),
        (torch.device("cuda:0"), "cuda"),
        (by_tag, "cuda"),
    ):
        file.seek(0)
        loaded = torch.load(file, map_location=where, weights_only=not callable(where))
        assert loaded["x"].device.type == kind and loaded["x"].tolist() == [0, 1, 2, 3, 4]
        assert loaded["view"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()
    assert pickle.loads(pickle.dumps(x)).is_cuda and torch.equal(copy.deepcopy(x), x)


@on_device
def test_exchange_with_other_libraries():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    y = torch.from_dlpack(x)
    assert y.data_ptr() == x.data_ptr() and y.device == x.device and tuple(x.__dlpack_device__()) == (2, 0)
    assert x.__cuda_array_interface__ == {
        "typestr": "<f4",
        "shape": (2, 3),
        "strides": None,
        "data": (x.data_ptr(), False),
        "version": 2,
    }

    class Foreign:
        __cuda_array_interface__ = x.t().__cuda_array_interface__

    z = torch.as_tensor(Foreign())
    assert z.data_ptr() == x.data_ptr() and torch.equal(z, x.t()) and torch.tensor(Foreign()).data_ptr() != x.data_ptr()
    with pytest.raises(AttributeError):
        torch.ones(1).__cuda_array_interface__
    assert not hasattr(torch.ones(1), "__cuda_array_interface__")


# ---- random numbers
# ---------------------------------------------------------------------------------------------------------


@on_device
def test_random_numbers():
    cuda = torch.cuda
    torch.manual_seed(5)
    first, state = torch.rand(4, device="cuda"), cuda.get_rng_state()
    second = torch.rand(4, device="cuda")
    cuda.set_rng_state(state)
    assert (
        torch.equal(torch.rand(4, device="cuda"), second) and state.dtype is torch.uint8 and state.device.type == "cpu"
    )
    cuda.manual_seed(5)
    assert torch.equal(torch.rand(4, device="cuda"), first) and cuda.initial_seed() == 5
    generator = torch.Generator("cuda").manual_seed(5)
    assert torch.equal(torch.rand(4, device="cuda", generator=generator), first)
    with torch.random.fork_rng():
        third = torch.rand(4, device="cuda")
    assert torch.equal(torch.rand(4, device="cuda"), third)
    cuda.set_rng_state_all(cuda.get_rng_state_all())
    assert len(cuda.default_generators) == cuda.device_count()
    cuda.seed_all()
    assert not torch.equal(torch.rand(4, device="cuda"), first)


def test_seeds_set_in_advance():
    run_script("""
import tessera as t
t.manual_seed(7)
if t.cuda.is_available():
    a = t.rand(3, device='cuda')
    t.cuda.manual_seed(7)
    assert t.equal(a, t.rand(3, device='cuda'))
""")


# ---- graphs
# -----------------------------------------------------------------------------------------------------------------


@on_device
def test_graphs():
    x = torch.zeros(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = x * 2 + 1
    assert not torch.cuda.is_current_stream_capturing()
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [2 * value + 1] * 3
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=graph.pool()):
        z = y + 1
    second.replay()
    assert z.tolist() == [10.0] * 3 and second.pool() == graph.pool()
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        with torch.cuda.graph(graph):
            pass
    with pytest.raises(RuntimeError, match="non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()
    graph.reset()
    with pytest.raises(RuntimeError):
        graph.replay()


@on_device
def test_random_numbers_of_graphs_go_on():
    torch.cuda.manual_seed(3)
    want = [torch.rand(5, device="cuda").tolist() for _ in range(4)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        a, b = torch.rand(5, device="cuda"), torch.rand(5, device="cuda")
    torch.cuda.manual_seed(3)
    got = []
    for _ in range(2):
        graph.replay()
        got += [a.tolist(), b.tolist()]
    assert got == want


@on_device
def test_graphed_modules():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).cuda()
    plain = copy.deepcopy(model)
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(5, 3, device="cuda"),))
    for _ in range(2):
        x = torch.randn(5, 3, device="cuda")
        a, b = graphed(x), plain(x)
        assert torch.allclose(a, b)
        for net, out in ((graphed, a), (plain, b)):
            net.zero_grad()
            out.sum().backward()
        assert all(torch.allclose(p.grad, q.grad) for p, q in zip(graphed.parameters(), plain.parameters()))


# ---- the rest
# ---------------------------------------------------------------------------------------------------------------


@on_device
def test_copies_between_devices():
    from tessera.cuda import comm

    x = torch.arange(6.0, device="cuda")
    pieces = comm.scatter(x, [0, 0], [2, 4])
    assert [p.tolist() for p in pieces] == [[0, 1], [2, 3, 4, 5]] and comm.gather(
        pieces, destination="cpu"
    ).tolist() == list(range(6))
    assert comm.reduce_add([x, x]).tolist() == (2 * x).tolist()
    assert (
        all(torch.equal(c, x) for c in comm.broadcast(x, [0, 0]))
        and len(comm.broadcast_coalesced([x, x + 1], [0, 0])) == 2
    )
    with pytest.raises(RuntimeError):
        comm.broadcast(x)
    with pytest.raises(RuntimeError):
        comm.broadcast(torch.ones(2), [0])


@on_device
def test_functions_that_make_tensors():
    """On the device, and without waiting for it."""
    t = torch
    calls = [
        lambda d: t.arange(-3, 40, 7, device=d),
        lambda d: t.arange(0.5, 3, 0.25, dtype=t.bfloat16, device=d),
        lambda d: t.linspace(-1, 1, 9, device=d),
        lambda d: t.linspace(0, 1 + 2j, 5, device=d),
        lambda d: t.linspace(0, 9, 4, dtype=t.int64, device=d),
        lambda d: t.logspace(0, 2, 5, base=3.0, device=d),
        lambda d: t.empty(5, 2, device=d)[:, 0].copy_(t.arange(5, device=d)),
        lambda d: t.tril_indices(5, 4, 1, device=d),
        lambda d: t.triu_indices(3, 6, -1, device=d),
    ]
    calls += [
        lambda d, w=w, p=p: w(9, periodic=p, device=d)
        for w in (t.hann_window, t.hamming_window, t.blackman_window, t.bartlett_window, t.kaiser_window)
        for p in (False, True)
    ]
    x = t.randn(500)
    data = {"cpu": x, "cuda": x.cuda()}
    counts = {d: t.tensor([2, 0, 3], device=d) for d in data}
    calls += [
        lambda d: t.frexp(data[d])[0],
        lambda d: t.frexp(data[d])[1],
        lambda d: t.histc(data[d], 10, -2, 2),
        lambda d: t.histogram(data[d], 7, range=(-1.0, 1.0))[0],
        lambda d: t.repeat_interleave(counts[d], output_size=5),
        lambda d: t._standard_gamma_grad(data[d].abs() + 0.1, data[d].abs() * 2),
    ]
    results = {}
    for device in ("cpu", "cuda"):
        t.cuda.set_sync_debug_mode("error" if device == "cuda" else "default")
        try:
            results[device] = [f(device) for f in calls]
        finally:
            t.cuda.set_sync_debug_mode("default")
    for on_cpu, on_cuda in zip(results["cpu"], results["cuda"]):
        assert on_cuda.is_cuda and on_cuda.dtype == on_cpu.dtype
        t.testing.assert_close(on_cuda.cpu(), on_cpu)
    # What depends on the data.
    weights = t.rand(500)
    for edges in (t.tensor([-2.0, -1.0, 0.5, 3.0]), 5):
        on = lambda d: t.histogram(
            data[d], edges.to(d) if isinstance(edges, t.Tensor) else edges, weight=weights.to(d), density=True
        )
        for a, b in zip(on("cpu"), on("cuda")):
            t.testing.assert_close(b.cpu(), a)
    t.testing.assert_close(t.histc(data["cuda"], 8).cpu(), t.histc(x, 8))
    assert t.repeat_interleave(counts["cuda"]).tolist() == [0, 0, 2, 2, 2]
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        t.repeat_interleave(-counts["cuda"])
    rows = t.randint(0, 2, (40, 3))
    for a, b in zip(
        t.unique(rows, dim=0, return_inverse=True, return_counts=True),
        t.unique(rows.cuda(), dim=0, return_inverse=True, return_counts=True),
    ):
        assert t.equal(b.cpu(), a)


@on_device
def test_collectives_of_one_process():
    run_script(
        """
import tessera as t
from tessera.cuda import nccl
if t.cuda.device_count() > 1:
    a, b = t.arange(4.0, device='cuda:0'), t.ones(4, device='cuda:1')
    nccl.all_reduce([a, b])
    assert a.tolist() == b.tolist() == [1, 2, 3, 4]
    nccl.broadcast([a, b.zero_()])
    assert b.tolist() == [1, 2, 3, 4]
    nccl.reduce([a, b], root=1)
    assert b.tolist() == [2, 4, 6, 8] and a.tolist() == [1, 2, 3, 4]
    outs = [t.empty(8, device=d) for d in ('cuda:0', 'cuda:1')]
    nccl.all_gather([a, b], outs)
    assert outs[0].tolist() == outs[1].tolist() == [1, 2, 3, 4, 2, 4, 6, 8]
    halves = [t.empty(2, device=d) for d in ('cuda:0', 'cuda:1')]
    nccl.reduce_scatter([a, b], halves)
    assert halves[0].tolist() == [3, 6] and halves[1].tolist() == [9, 12]
try:
    nccl.all_reduce([t.ones(2)])
except RuntimeError as e:
    assert 'CUDA device' in str(e)
""",
        TESSERA_EMULATED_DEVICES="2",
    )


@on_device
def test_settings_and_runtime():
    with torch.backends.cudnn.flags(enabled=False, benchmark=True):
        assert (
            torch.nn.functional.conv2d(
                torch.ones(1, 1, 3, 3, device="cuda"), torch.ones(1, 1, 3, 3, device="cuda")
            ).item()
            == 9
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.set_float32_matmul_precision("highest")
    assert not torch.backends.cuda.matmul.allow_tf32
    runtime = torch.cuda.cudart()
    assert runtime.cudaMemGetInfo(0) == torch.cuda.mem_get_info() and runtime.cudaGetErrorString(2) == "out of memory"
    torch.cuda.check_error(0)
    with pytest.raises(torch.cuda.CudaError):
        torch.cuda.check_error(2)
    torch.cuda.nvtx.range_push("a")
    torch.cuda.nvtx.range_pop()
    with torch.cuda.nvtx.range("{} b", 1):
        torch.cuda.nvtx.mark("c")
