"""Recordings: which events there are, what they know, how averages and tables come from them."""

import json
import subprocess
import sys
import threading

import pytest
import tessera
from tessera.autograd import profiler
from tessera.profiler import ProfilerActivity, _ExperimentalConfig, profile, record_function


def by_name(prof, name):
    found = [event for event in prof.events() if event.name == name]
    assert found, f"no event {name!r} among {sorted({event.name for event in prof.events()})}"
    return found


def keys(prof, **options):
    return {event.key: event for event in prof.key_averages(**options)}


@pytest.fixture
def net():
    return tessera.nn.Sequential(tessera.nn.Linear(4, 8), tessera.nn.ReLU(), tessera.nn.Linear(8, 2))


def test_operators_are_inside_of_each_other():
    with profile() as prof:
        tessera.ones(2, 3) @ tessera.ones(3, 4)
    outer, inner = by_name(prof, "aten::matmul")[0], by_name(prof, "aten::mm")[0]
    assert inner.cpu_parent is outer and inner in outer.cpu_children
    assert outer.time_range.start <= inner.time_range.start <= inner.time_range.end <= outer.time_range.end
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total)
    assert outer.thread == inner.thread == 1


def test_nothing_of_before_and_after():
    x = tessera.ones(2)
    x.exp()
    with profile() as prof:
        x.sin()
    x.cos()
    assert {event.name for event in prof.events()} == {"aten::sin"}
    assert not tessera.autograd._profiler_enabled()


def test_shapes_dtypes_and_numbers_of_arguments():
    x = tessera.ones(4, 6, dtype=tessera.float64)
    with profile(record_shapes=True) as prof:
        x.t().sum(0)
        tessera.cat([x, x], 1)
    transposed = by_name(prof, "aten::sum")[0]
    assert transposed.input_shapes[0] == [6, 4] and transposed.structured_input_strides[0] == [1, 6]
    assert transposed.input_dtypes[0] == "double" and transposed.concrete_inputs[1] == [0]
    joined = by_name(prof, "aten::cat")[0]
    assert joined.input_shapes[0] == [[4, 6], [4, 6]] and joined.concrete_inputs[1] == 1
    with profile() as prof:
        x.sum(0)
    assert by_name(prof, "aten::sum")[0].input_shapes == []


def test_nodes_know_their_operator():
    x = tessera.ones(3, requires_grad=True)
    with profile() as prof:
        y = x.exp()
        z = y * y
        z.sum().backward()
    for operator, node in (("aten::exp", "ExpBackward0"), ("aten::mul", "MulBackward0")):
        made_by, made = by_name(prof, operator)[0], by_name(prof, node)[0]
        assert made.sequence_nr == made_by.sequence_nr >= 0 and made.forward_id == made_by.id
        assert made.scope == 1 and made.fwd_thread == made_by.thread
        assert made.cpu_parent.name == "autograd::engine::evaluate_function: " + node
    assert len(by_name(prof, "torch::autograd::AccumulateGrad")) == 1


def test_custom_functions_are_nodes_by_their_name():
    class Twice(tessera.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = tessera.ones(3, requires_grad=True)
    with profile() as prof:
        Twice.apply(x).sum().backward()
    del x
    assert keys(prof)["TwiceBackward"].count == 1


def test_an_error_ends_its_event():
    with profile() as prof:
        with pytest.raises(RuntimeError):
            tessera.ones(2, 3).mm(tessera.ones(2, 3))
        tessera.ones(2).exp()
    assert by_name(prof, "aten::exp")[0].cpu_parent is None


def test_annotations_nest_and_decorate():
    @record_function("decorated")
    def f(x):
        """Doc."""
        return x.exp()

    with profile() as prof:
        with record_function("outer"):
            with record_function("inner", "more"):
                f(tessera.ones(2))
    assert f.__name__ == "f" and f.__doc__ == "Doc."
    inner = by_name(prof, "inner, more")[0]
    assert inner.cpu_parent.name == "outer" and inner.is_user_annotation and inner.scope == 7
    assert by_name(prof, "aten::exp")[0].cpu_parent.name == "decorated"


@pytest.mark.parametrize("arguments", [(3,), ("name", 4)])
def test_annotations_have_names(arguments):
    with pytest.raises(TypeError, match="must be a str"):
        record_function(*arguments)


def test_an_annotation_outlives_what_it_began_in():
    with profile() as prof:
        label = record_function("long")

        def begin():
            label.__enter__()

        begin()
        tessera.ones(1).exp()
        label.__exit__(None, None, None)
        tessera.ones(1).sin()
    assert by_name(prof, "aten::exp")[0].cpu_parent.name == "long"
    assert by_name(prof, "aten::sin")[0].cpu_parent is None


def test_annotation_of_a_future_ends_with_it():
    future = tessera.futures.Future()
    with profile() as prof:
        with record_function("waits") as label:
            done = label._call_end_callbacks_on_future(future)
            with pytest.raises(RuntimeError, match="only be called once"):
                label._call_end_callbacks_on_future(future)
        tessera.ones(1).exp()
        future.set_result(5)
    assert done.wait() == 5
    assert by_name(prof, "waits")[0].time_range.end >= by_name(prof, "aten::exp")[0].time_range.end


def test_optimizer_and_loader_are_annotated(net):
    optimizer = tessera.optim.SGD(net.parameters(), lr=0.1)
    loader = tessera.utils.data.DataLoader(tessera.utils.data.TensorDataset(tessera.ones(4, 4)), batch_size=2)
    with profile() as prof:
        for (batch,) in loader:
            net(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    found = keys(prof)
    assert found["Optimizer.step#SGD.step"].count == 2 and found["Optimizer.zero_grad#SGD.zero_grad"].count == 2
    assert found["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"].count == 3  # the last one ends the loop
    assert found["AddmmBackward0"].count == 4


def test_memory_of_operators_and_outside():
    with profile(profile_memory=True) as prof:
        with record_function("block"):
            x = tessera.ones(100)
            y = x + x
            del x
        del y
    assert by_name(prof, "aten::add")[0].self_cpu_memory_usage == 400
    assert by_name(prof, "block")[0].cpu_memory_usage == 400  # two taken, one given back
    assert by_name(prof, "[memory]")[0].cpu_memory_usage == -400
    table = prof.key_averages().table()
    assert "Self CPU Mem" in table and "400 B" in table


def test_flops():
    with profile(with_flops=True) as prof:
        a = tessera.ones(3, 4) @ tessera.ones(4, 5)
        tessera.addmm(a, tessera.ones(3, 4), tessera.ones(4, 5))
        tessera.bmm(tessera.ones(2, 3, 4), tessera.ones(2, 4, 5))
        tessera.baddbmm(tessera.ones(2, 3, 5), tessera.ones(2, 3, 4), tessera.ones(2, 4, 5))
        tessera.nn.functional.conv2d(tessera.ones(2, 3, 4, 4), tessera.ones(5, 3, 2, 2), padding=1, stride=2)
        tessera.nn.functional.conv2d(tessera.ones(1, 4, 5, 5), tessera.ones(6, 2, 3, 3), groups=2, dilation=2)
        a + a, a * a, a - a
    found = keys(prof)
    sums = {name: found["aten::" + name].flops for name in ("mm", "addmm", "bmm", "baddbmm", "add", "mul", "sub")}
    assert sums == {"mm": 120, "addmm": 120, "bmm": 240, "baddbmm": 240, "add": 15, "mul": 15, "sub": 0}
    assert found["aten::conv2d"].flops == 2160 + 2 * 6 * 1 * 2 * 9
    assert "FLOPs" in prof.key_averages().table()


def test_stacks_and_modules(net):
    def work():
        return net(tessera.ones(2, 4)).sum()

    with profile(with_stack=True, with_modules=True) as prof:
        work().backward()
    first, second = by_name(prof, "aten::addmm")
    assert "linear.py" in first.stack[0] and first.stack[0].endswith(": forward")
    assert any(place.endswith(": work") and "test_profile.py" in place for place in first.stack)
    assert first.module_hierarchy == "Sequential_0.Linear_0" and second.module_hierarchy == "Sequential_0.Linear_1"
    # A node has the place of what made it.
    assert [node.module_hierarchy for node in by_name(prof, "AddmmBackward0")] == [
        second.module_hierarchy,
        first.module_hierarchy,
    ]
    functions = [event for event in prof.events() if event.is_python_function]
    assert any(event.name == "nn.Module: Linear_1" for event in functions)
    assert not any("profiler/profiler.py" in event.name for event in functions)
    assert not any("autograd/profiler.py" in event.name for event in functions)
    assert not any("work" in event.key for event in prof.key_averages())
    grouped = [e for e in prof.key_averages(group_by_stack_n=20) if e.key == "aten::addmm"]
    assert len(grouped) == 2 and all(len(e.stack) <= 20 for e in grouped)
    assert sys.getprofile() is None


def test_the_programs_own_profile_function_comes_back():
    mine = lambda frame, event, argument: None
    sys.setprofile(mine)
    try:
        with profile(with_stack=True):
            tessera.ones(1).exp()
        found = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert found is mine


def test_another_thread_may_end_a_recording():
    prof = profile()
    prof.start()
    tessera.ones(1).exp()
    thread = threading.Thread(target=prof.stop)
    thread.start()
    thread.join()
    tessera.ones(1).sin()
    names = {event.name for event in prof.events()}
    assert "aten::exp" in names and "aten::sin" not in names
    with profile() as again:
        tessera.ones(1).cos()
    assert {event.name for event in again.events()} == {"aten::ones", "aten::cos"}


def test_stacks_of_generators_and_errors():
    def numbers():
        yield tessera.ones(1).exp()
        yield tessera.ones(1).sin()

    def fails():
        tessera.ones(1).cos()
        raise KeyError

    with profile(with_stack=True) as prof:
        for _ in numbers():
            tessera.ones(1).tan()
        with pytest.raises(KeyError):
            fails()
        tessera.ones(1).log()
    inner = {name: by_name(prof, f"aten::{name}")[0].stack[0] for name in ("exp", "sin", "tan", "cos", "log")}
    assert inner["exp"].endswith(": numbers") and inner["sin"].endswith(": numbers")
    assert inner["cos"].endswith(": fails")
    assert inner["tan"].endswith(inner["log"]) and inner["log"].endswith(": test_stacks_of_generators_and_errors")


def test_one_recording_at_a_time():
    with profile():
        with pytest.raises(RuntimeError, match="recording already"):
            profiler.profile().__enter__()
    again = profiler.profile()
    with again:
        with pytest.raises(RuntimeError, match="not reentrant"):
            again.__enter__()
    with pytest.raises(RuntimeError, match="didn't finish"):
        profiler.profile().table()


def test_disabled_is_nothing():
    with profiler.profile(enabled=False) as prof:
        assert prof is None and not tessera.autograd._profiler_enabled()


def test_pause():
    with profile() as prof:
        tessera.ones(1).exp()
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        tessera.ones(1).sin()
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
        tessera.ones(1).cos()
    assert {"aten::exp", "aten::cos"} <= set(keys(prof)) and "aten::sin" not in keys(prof)


@pytest.mark.parametrize("everyone", [False, True])
def test_threads(everyone):
    def work():
        with record_function("in a thread"):
            tessera.ones(3).exp()

    with profile(experimental_config=_ExperimentalConfig(profile_all_threads=everyone)) as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        tessera.ones(3).sin()
    names = {event.name: event.thread for event in prof.events()}
    assert ("aten::exp" in names) == ("in a thread" in names) == everyone
    if everyone:
        assert names["aten::exp"] == names["in a thread"] != names["aten::sin"]
    with profile() as prof:  # and no more
        tessera.ones(3).exp()
    assert len({event.thread for event in prof.events()}) == 1


def test_overloads():
    x = tessera.ones(3)
    with profile(experimental_config=_ExperimentalConfig(capture_overload_names=True)) as prof:
        x + x
        x.sum(), x.sum(0)
    assert by_name(prof, "aten::add")[0].overload_name == "Tensor"
    assert len([e for e in prof.key_averages(group_by_overload_name=True) if e.key == "aten::sum"]) == 2
    assert "Overload Name" in prof.key_averages(group_by_overload_name=True).table()


def test_garbage_and_metadata():
    import gc

    config = _ExperimentalConfig(record_python_gc_info=True, expose_kineto_event_metadata=True)
    with profile(experimental_config=config, record_shapes=True) as prof:
        gc.collect()
        tessera.ones(2, 3).exp()
    callbacks = len(gc.callbacks)
    assert by_name(prof, "Python GC, generation 2")
    assert json.loads(by_name(prof, "aten::exp")[0].metadata_json)["Input Dims"] == [[2, 3]]
    with profile(experimental_config=config):
        pass
    assert len(gc.callbacks) == callbacks


def test_options_of_devices_are_refused():
    with pytest.raises(NotImplementedError, match="enable_cuda_sync_events"):
        _ExperimentalConfig(enable_cuda_sync_events=True)
    with pytest.raises(TypeError, match="experimental_config"):
        profiler.profile(experimental_config=3)
    with pytest.warns(UserWarning, match="XPU: there is no such device"):
        profile(activities=[ProfilerActivity.XPU, ProfilerActivity.CPU])
    with pytest.warns(UserWarning, match="cannot be recorded"):
        profiler.profile(use_device="mtia")
    if not tessera.cuda.is_available():
        with pytest.warns(UserWarning, match="cuda: there is no such device"):
            profiler.profile(use_device="cuda")
    with pytest.raises(ValueError, match="use_device"):
        profiler.profile(use_device="toaster")
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])
    with pytest.raises(TypeError, match="ProfilerActivity"):
        profile(activities=["cpu"])
    with pytest.raises(RuntimeError, match="trace_only"):
        with profiler.profile(experimental_config=_ExperimentalConfig(trace_only=True)) as prof:
            pass
        prof.key_averages()


def test_several_uses_are_kept_together():
    for together, count in ((False, 1), (True, 2)):
        prof = profiler.profile(acc_events=together)
        for _ in range(2):
            with prof:
                tessera.ones(1).exp()
        assert keys_of(prof)["aten::exp"] == count


def keys_of(prof):
    return {event.key: event.count for event in prof.key_averages()}


def test_user_kernels_and_library_operators_are_recorded():
    library = tessera.library.Library("profiled", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    with profile() as prof:
        tessera.ops.profiled.twice(tessera.ones(2))
    assert by_name(prof, "aten::mul")[0].cpu_parent.name == "profiled::twice"


def test_a_recording_survives_a_fork():
    program = """
import os, tessera
from tessera.profiler import profile
with profile() as prof:
    tessera.ones(1).exp()
    child = os.fork()
    if child == 0:
        tessera.ones(1).sin()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
assert {e.name for e in prof.events()} >= {"aten::exp"}
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "done", done.stderr


def test_shapes_of_what_has_none():
    with profile(record_shapes=True) as prof:
        with record_function("label"):
            tessera.ones(2) + 1
    lines = prof.key_averages(group_by_input_shape=True).table().splitlines()
    assert [line.split()[-1] for line in lines if " label " in line] == ["[]"]


def test_names_of_the_extension():
    from tessera._C._profiler import _ExperimentalConfig

    assert tessera._C._profiler._ExperimentalConfig is _ExperimentalConfig
    with profile(with_stack=True, experimental_config=_ExperimentalConfig(verbose=True)) as prof:
        tessera.ones(1)
    assert prof.events()
