// Recordings of C++ programs: operators, what is inside of what, backward, annotations, memory, threads, ranges.
#include "profiler/profiler.h"

#include <algorithm>
#include <thread>

#include "autograd/autograd.h"
#include "gtest/gtest.h"
#include "tensor/dispatch/registry.h"
#include "tensor/ops/api.h"
#include "tensor/ops/ops_registry.h"

namespace tessera::profiler {
namespace {

const Record* find(const Recording& r, std::string_view name, size_t number = 0) {
  for (const Record& e : r.events)
    if (e.name == name && number-- == 0) return &e;
  return nullptr;
}
size_t count(const Recording& r, std::string_view name) {
  return static_cast<size_t>(std::count_if(r.events.begin(), r.events.end(), [&](auto& e) { return e.name == name; }));
}
Tensor ones(int64_t rows, int64_t columns) { return tessera::full({rows, columns}, 1.0); }

TEST(Profile, RecordsOperatorsAndWhatIsInsideOfThem) {
  const Tensor a = ones(3, 4), b = ones(4, 5);
  Profile profile({.shapes = true});
  matmul(a, b);
  const Recording r = profile.stop();
  const Record* outer = find(r, "aten::matmul");
  const Record* inner = find(r, "aten::mm");
  ASSERT_TRUE(outer && inner);
  EXPECT_EQ(&r.events[static_cast<size_t>(inner->parent)], outer);
  EXPECT_LE(outer->start_ns, inner->start_ns);
  EXPECT_GE(outer->end_ns, inner->end_ns);
  ASSERT_EQ(inner->inputs.size(), 2u);
  EXPECT_EQ(inner->inputs[0].tensors[0].sizes, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(inner->inputs[1].tensors[0].strides, (std::vector<int64_t>{5, 1}));
  EXPECT_GE(r.start_ns, 0);
  EXPECT_LE(outer->end_ns, r.end_ns + 1000);
}

TEST(Profile, ANumberInsteadOfATensorIsTheSameEvent) {
  Profile profile;
  add(ones(2, 2), 1.5);
  const Recording r = profile.stop();
  ASSERT_EQ(count(r, "aten::add"), 1u);
  EXPECT_EQ(find(r, "aten::add")->overload, "Tensor");
}

TEST(Profile, NothingIsRecordedOutsideOfIt) {
  const Tensor a = ones(2, 2);
  add(a, a);
  Profile profile;
  mul(a, a);
  const Recording r = profile.stop();
  add(a, a);
  EXPECT_EQ(count(r, "aten::add"), 0u);
  EXPECT_EQ(count(r, "aten::mul"), 1u);
  EXPECT_FALSE(is_recording());
}

TEST(Profile, OneAtATime) {
  Profile profile;
  EXPECT_THROW(start({}), Error);
  profile.stop();
  EXPECT_THROW(stop(), Error);
  EXPECT_THROW(set_enabled(false), Error);
}

TEST(Profile, PausesAndGoesOn) {
  const Tensor a = ones(2, 2);
  Profile profile;
  add(a, a);
  set_enabled(false);
  mul(a, a);
  set_enabled(true);
  add(a, a);
  const Recording r = profile.stop();
  EXPECT_EQ(count(r, "aten::add"), 2u);
  EXPECT_EQ(count(r, "aten::mul"), 0u);
}

TEST(Profile, NodesKnowTheOperatorThatMadeThem) {
  Tensor x = ones(2, 3);
  x.requires_grad_(true);
  Profile profile;
  const Tensor loss = sum(mul(x, x));
  autograd::backward({&loss, 1});
  const Recording r = profile.stop();
  const Record* node = find(r, "MulBackward0");
  ASSERT_TRUE(node);
  EXPECT_EQ(node->kind, Kind::kNode);
  ASSERT_GE(node->forward, 0);
  EXPECT_EQ(r.events[static_cast<size_t>(node->forward)].name, "aten::mul");
  EXPECT_EQ(r.events[static_cast<size_t>(node->forward)].sequence, node->sequence);
  const Record* around = find(r, "autograd::engine::evaluate_function: MulBackward0");
  ASSERT_TRUE(around);
  EXPECT_EQ(&r.events[static_cast<size_t>(node->parent)], around);
  EXPECT_EQ(count(r, "torch::autograd::AccumulateGrad"), 1u);
}

TEST(Profile, AnErrorEndsItsEvent) {
  Profile profile;
  EXPECT_ANY_THROW(mm(ones(2, 3), ones(2, 3)));
  add(ones(1, 1), ones(1, 1));
  const Recording r = profile.stop();
  ASSERT_TRUE(find(r, "aten::mm"));
  EXPECT_TRUE(find(r, "aten::mm")->finished);
  EXPECT_EQ(find(r, "aten::add")->parent, -1);
}

TEST(Profile, AnnotationsAreAroundWhatHappensInThem) {
  Profile profile;
  {
    RecordFunction outer("outer");
    const Tensor a = ones(2, 2);
    RecordFunction inner("inner");
    add(a, a);
    inner.end();
    mul(a, a);
  }
  const Recording r = profile.stop();
  const auto name_around = [&](std::string_view name) {
    return r.events[static_cast<size_t>(find(r, name)->parent)].name;
  };
  EXPECT_EQ(name_around("aten::add"), "inner");
  EXPECT_EQ(name_around("aten::mul"), "outer");
  EXPECT_EQ(name_around("inner"), "outer");
  RecordFunction nobody("nobody records");
  EXPECT_FALSE(nobody.active());
}

TEST(Profile, AnAnnotationMayEndOnAnotherThread) {
  Profile profile;
  auto open = std::make_unique<RecordFunction>("handed on");
  std::thread([&] { open->end(); }).join();
  add(ones(1, 1), ones(1, 1));
  const Recording r = profile.stop();
  EXPECT_TRUE(find(r, "handed on")->finished);
  EXPECT_EQ(find(r, "aten::add")->parent, -1);
}

TEST(Profile, MemoryBelongsToTheOperatorThatTookIt) {
  Profile profile({.memory = true});
  {
    RecordFunction block("block");
    const Tensor a = ones(4, 4);
    const Tensor b = add(a, a);
  }
  const Recording r = profile.stop();
  EXPECT_EQ(find(r, "aten::add")->self_memory, 64);
  EXPECT_EQ(find(r, "block")->memory, 0);  // all was given back in it
  EXPECT_EQ(find(r, "block")->self_memory, -128);
  ASSERT_EQ(r.memory.size(), 4u);
  EXPECT_EQ(r.memory[1].total - r.memory[0].total, 64);
}

TEST(Profile, OtherThreadsTakePartIfTheyAreAskedTo) {
  for (const bool all : {false, true}) {
    Profile profile({.all_threads = all, .operators_of_all_threads = registry_ops()});
    std::thread([] { add(ones(1, 1), ones(1, 1)); }).join();
    mul(ones(1, 1), ones(1, 1));
    const Recording r = profile.stop();
    EXPECT_EQ(count(r, "aten::add"), all ? 1u : 0u);
    EXPECT_EQ(count(r, "aten::mul"), 1u);
    EXPECT_EQ(r.threads.size(), all ? 2u : 1u);
  }
  EXPECT_EQ(op::add_Tensor.forced_keys, 0u);
}

TEST(Profile, ManyEventsStayInOrder) {
  const Tensor a = ones(1, 1);
  Profile profile;
  for (int i = 0; i < 5000; ++i) add(a, a);
  const Recording r = profile.stop();
  ASSERT_EQ(count(r, "aten::add"), 5000u);
  EXPECT_TRUE(
      std::is_sorted(r.events.begin(), r.events.end(), [](auto& x, auto& y) { return x.start_ns < y.start_ns; }));
}

TEST(Profile, AveragesAddUp) {
  const Tensor a = ones(8, 8);
  Profile profile;
  for (int i = 0; i < 10; ++i) matmul(a, a);
  const Recording r = profile.stop();
  int64_t own = 0, outer = 0;
  for (const Average& v : r.averages()) own += v.self_ns;
  for (const Record& e : r.events) outer += e.parent < 0 ? e.duration_ns() : 0;
  EXPECT_EQ(own, outer);
  EXPECT_NE(r.table().find("aten::mm"), std::string::npos);
}

TEST(Profile, TracesHaveEventsAndFields) {
  Profile profile({.shapes = true, .memory = true});
  {
    RecordFunction odd("a \"name\"\n");
    mm(ones(2, 3), ones(3, 4));
  }
  const std::string field = "\"mine\": [1, 2]";
  const std::string trace = profile.stop().chrome_trace({&field, 1});
  for (const char* part : {"\"aten::mm\"", "\"Input Dims\":[[2,3],[3,4]]", "\"mine\": [1, 2]", "a \\\"name\\\"\\u000a",
                           "\"[memory]\"", "\"traceEvents\""})
    EXPECT_NE(trace.find(part), std::string::npos) << part;
}

std::string g_ranges;
TEST(Emitter, RangesHaveNumbersAndSizes) {
  static const Emitter emitter = {[](const char* name) { g_ranges += std::string(name) + ";"; },
                                  [] { g_ranges += "/"; }, true};
  Tensor x = ones(2, 3);
  x.requires_grad_(true);
  set_emitter(&emitter);
  EXPECT_THROW(set_emitter(&emitter), Error);
  mul(x, x);
  set_emitter(nullptr);
  mul(x, x);
  EXPECT_NE(g_ranges.find("aten::mul, seq = "), std::string::npos);
  EXPECT_NE(g_ranges.find("sizes = [[2, 3], [2, 3]]"), std::string::npos);
  EXPECT_EQ(std::count(g_ranges.begin(), g_ranges.end(), ';'), std::count(g_ranges.begin(), g_ranges.end(), '/'));
}

TEST(Clock, RunsAsTheSystemsDoes) {
  const Moment start = now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Scale scale(start);
  const Moment end = now();
  EXPECT_NEAR(static_cast<double>(scale.wall_ns(end.ticks) - start.wall_ns),
              static_cast<double>(end.monotonic_ns - start.monotonic_ns), 20'000);
}

}  // namespace
}  // namespace tessera::profiler
