"""Classes and operators that a library registers by TORCH_LIBRARY: from Python, in scripts, in archives, in pickles."""

import copy
import io
import os
import pathlib
import pickle
import subprocess
import sys
from typing import Dict, List, Tuple

import pytest
import tessera
from tessera.utils import cpp_extension

SOURCE = r"""
#include <torch/library.h>
#include <omp.h>

#include <ATen/ATen.h>

namespace {
struct Queue : torch::CustomClassHolder {
  std::vector<std::string> items;
  double weight = 0.5;
  explicit Queue(std::vector<std::string> i) : items(std::move(i)) {}
  void push(std::string s) { items.push_back(std::move(s)); }
  std::string pop() {
    TORCH_CHECK_INDEX(!items.empty(), "pop from an empty Queue");
    std::string s = items.back();
    items.pop_back();
    return s;
  }
  c10::intrusive_ptr<Queue> clone() const { return c10::make_intrusive<Queue>(items); }
  void take(const c10::intrusive_ptr<Queue>& other) {
    for (const auto& s : other->items) items.push_back(s);
  }
  at::Tensor scale(const at::Tensor& x, int64_t times) { return x * (weight * times); }
};
using Pointer = c10::intrusive_ptr<Queue>;

TORCH_LIBRARY(_test_registered, m) {
  m.class_<Queue>("Queue", "Strings.")
      .def(torch::init<std::vector<std::string>>())
      .def("push", &Queue::push)
      .def("pop", &Queue::pop)
      .def("clone", &Queue::clone)
      .def("take", &Queue::take)
      .def("scale", &Queue::scale, "", {torch::arg("x"), torch::arg("times") = 2})
      .def("__len__", [](const Pointer& self) { return static_cast<int64_t>(self->items.size()); })
      .def_static("empty", []() { return c10::make_intrusive<Queue>(std::vector<std::string>()); })
      .def_readwrite("weight", &Queue::weight)
      .def_property("first", [](const Pointer& self) { return self->items.at(0); })
      .def_pickle([](const Pointer& self) { return self->items; },
                  [](std::vector<std::string> items) { return c10::make_intrusive<Queue>(std::move(items)); });
  m.def("total(__torch__.torch.classes._test_registered.Queue q) -> int",
        [](const Pointer& q) { return static_cast<int64_t>(q->items.size()); });
  m.def("make(str[] items) -> __torch__.torch.classes._test_registered.Queue",
        [](std::vector<std::string> items) { return c10::make_intrusive<Queue>(std::move(items)); });
  m.def("threads", []() {
    int64_t n = 0;
#pragma omp parallel num_threads(2) reduction(+ : n)
    n += omp_get_num_threads() > 0;
    return n;
  });
  m.def("selected", [](c10::Dict<std::string, at::Tensor> all, std::vector<std::tuple<std::string, int64_t>> which) {
    c10::Dict<std::string, at::Tensor> out;
    for (const auto& [name, factor] : which) out.insert(name, all.at(name) * factor);
    return std::make_tuple(out, which);
  });
  m.def("shift(Tensor x, int by=1, *, float? scale=None) -> Tensor",
        [](const at::Tensor& x, int64_t by, std::optional<double> scale) { return x * scale.value_or(1) + by; });
}
}  // namespace
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not (pathlib.Path(tessera.__file__).parent / "include").is_dir():
        pytest.skip("the package is used from a checkout, without headers: tools/cpp_files.py writes them")
    folder = tmp_path_factory.mktemp("registered")
    cpp_extension.load_inline(
        "registered",
        SOURCE,
        extra_cflags=["-O0", "-fopenmp"],
        build_directory=str(folder),
        is_python_module=False,
        no_implicit_headers=True,
    )
    return folder / "registered.so"


@pytest.fixture
def queue_class(library):
    return tessera.classes._test_registered.Queue


def test_objects_in_python(queue_class):
    Queue = queue_class
    q = Queue(["a", "b"])
    assert isinstance(q, tessera.ScriptObject) and isinstance(q, Queue) and isinstance(q, tessera._C.ScriptObject)
    q.push("c")
    assert len(q) == 3 and q.pop() == "c" and q.first == "a" and q.weight == 0.5
    q.weight = 2.0
    assert q.scale(tessera.ones(2)).tolist() == [4.0, 4.0]
    assert q.scale(tessera.ones(1), times=3).tolist() == [6.0]
    other = Queue.empty()
    other.take(q)
    assert len(other) == 2 and len(q.clone()) == 2
    assert {"push", "pop", "__getstate__"} <= set(q._method_names()) and q._has_method("pop")
    assert str(q._type()) == "__torch__.torch.classes._test_registered.Queue"
    assert (
        Queue.__name__ == "Queue" and Queue.__doc__ == "Strings." and "Queue" in dir(tessera.classes._test_registered)
    )


def test_misuse_is_an_error(queue_class):
    Queue = queue_class
    with pytest.raises(IndexError, match="pop from an empty Queue"):
        Queue.empty().pop()
    with pytest.raises(RuntimeError, match="does not exist"):
        tessera.classes._test_registered.Stack
    with pytest.raises(AttributeError):
        Queue([]).nothing
    with pytest.raises(RuntimeError, match="no setter"):
        Queue([]).first = "x"
    with pytest.raises(RuntimeError, match="Expected a value of type 'List\\[str\\]'"):
        Queue(3)
    with pytest.raises(RuntimeError, match="don't fit its schema"):
        tessera.ops._test_registered.total(tessera.ones(1))


def test_operators_take_and_give_objects_and_containers(queue_class):
    Queue = queue_class
    ops = tessera.ops._test_registered
    made = ops.make(["x", "y"])
    assert isinstance(made, Queue) and ops.total(made) == 2
    x = {"a": tessera.ones(1), "b": tessera.ones(2)}
    out, which = ops.selected(x, [("b", 3)])
    assert list(out) == ["b"] and out["b"].tolist() == [3.0, 3.0] and which == [("b", 3)]
    assert ops.threads() == 2
    with pytest.raises(RuntimeError, match="don't fit its schema"):
        ops.make([1])


def test_scripts_make_call_and_pass_objects(queue_class):
    Queue = queue_class
    ops = tessera.ops._test_registered

    @tessera.jit.script
    def build(names: List[str]) -> Tuple[Queue, int]:
        q = Queue(names)
        q.push("last")
        other = ops.make(["z"])
        q.take(other)
        q.weight = q.weight * 3
        return q, ops.total(q) + len(other)

    q, n = build(["a"])
    assert n == 4 and q.pop() == "z" and q.weight == 1.5
    assert 'prim::CallMethod[name="push"]' in str(build.graph)

    @tessera.jit.script
    def read(q: Queue, x: tessera.Tensor):
        if len(q) > 1:
            return q.scale(x)
        return ops.shift(x, scale=2.0)

    assert read(q, tessera.ones(1)).tolist() == [3.0]
    assert read(Queue(["a"]), tessera.ones(1)).tolist() == [3.0] and read(Queue([]), tessera.zeros(1)).tolist() == [1.0]
    with pytest.raises(RuntimeError, match="Expected a value of type '__torch__.torch.classes"):
        read("q", tessera.ones(1))


def test_scripts_call_operators_of_a_loaded_library(library):
    ops = tessera.ops._test_registered

    @tessera.jit.script
    def f(x: tessera.Tensor, table: Dict[str, tessera.Tensor]):
        out, _ = ops.selected(table, [("a", 2)])
        return ops.shift(x) + out["a"]

    assert f(tessera.zeros(1), {"a": tessera.ones(1)}).tolist() == [3.0]
    assert "_test_registered::shift" in str(f.graph)


def test_operators_that_come_and_go_are_seen_by_later_scripts():
    def f(x):
        return tessera.ops._test_registered_later.f(x)

    lib = tessera.library.Library("_test_registered_later", "FRAGMENT")
    with pytest.raises(RuntimeError):
        tessera.jit.script(f)
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 7, "CompositeImplicitAutograd")
    scripted = tessera.jit.script(f)
    assert scripted(tessera.ones(1)).item() == 7
    lib._destroy()
    with pytest.raises(RuntimeError, match="is gone"):
        scripted(tessera.ones(1))


def test_copies_pickles_and_archives(queue_class, library, tmp_path):
    Queue = queue_class
    q = Queue(["a", "b"])
    for other in (copy.deepcopy(q), pickle.loads(pickle.dumps(q))):
        other.push("c")
        assert len(other) == 3 and len(q) == 2

    class Holder(tessera.nn.Module):
        def __init__(self):
            super().__init__()
            self.queue = Queue(["p", "q"])

        def forward(self, x):
            made = Queue(["r"])
            made.take(self.queue)
            return self.queue.scale(x) * len(made)

    module = tessera.jit.script(Holder())
    assert module(tessera.ones(1)).tolist() == [3.0]
    path = tmp_path / "holder.pt"
    module.save(str(path))
    assert tessera.jit.load(str(path))(tessera.ones(1)).tolist() == [3.0]
    buffer = io.BytesIO()
    tessera.save({"q": q}, buffer)
    buffer.seek(0)
    assert len(tessera.load(buffer, weights_only=False)["q"]) == 2

    program = (
        "import sys, tessera\ntry:\n    tessera.jit.load(sys.argv[1])\nexcept RuntimeError as e:\n    print(e)\n"
        "tessera.classes.load_library(sys.argv[2])\nassert sys.argv[2] in tessera.classes.loaded_libraries\n"
        "print(tessera.jit.load(sys.argv[1])(tessera.ones(1)).tolist())\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(path), os.path.realpath(library)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert "Queue, which is not registered" in told and told.endswith("[3.0]\n")


def test_the_class_of_a_value_in_a_script():
    class Pair:
        def __init__(self, x: int):
            self.x = x

        def same(self, other: "Pair") -> bool:
            return isinstance(other, self.__class__) and self.x == other.x

    Scripted = tessera.jit.script(Pair)

    @tessera.jit.script
    def f(n: int) -> bool:
        return Scripted(n).same(Scripted(3))

    assert f(3) and not f(4)
