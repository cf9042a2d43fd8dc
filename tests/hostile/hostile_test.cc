// Indices and offsets that lie: whatever numbers the members of sparse tensors, offsets of bags and lists of places
// hold, an operator answers or throws Error, and reads no other memory. HOSTILE_CALLS=50000 makes that many calls of
// each kind (the default is a second's worth, always the same), HOSTILE_SEED other ones; --config=asan sees what is
// read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include "autograd/autograd.h"
#include "masked/masked_registry.h"
#include "nn/nn_ops_registry.h"
#include "sparse/all_ops.h"
#include "sparse/sparse_registry.h"
#include "tensor/core/layouts/sparse.h"
#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/schema.h"
#include "tensor/ops/api.h"
#include "tensor/ops/ops_registry.h"

namespace tessera {
namespace {

constexpr int64_t kSide = 4;  // of the matrices
constexpr int64_t kNasty[] = {-1, -7, int64_t{1} << 31, int64_t{1} << 62, INT64_MAX, INT64_MIN, 99, 5, kSide};

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* given = std::getenv(name);
  return given ? std::atoll(given) : otherwise;
}

IntVector shape_of(const Tensor& t) { return {t.sizes().begin(), t.sizes().end()}; }

class Hostile {
 public:
  explicit Hostile(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(random_() >> 11) < p * 0x1p53; }
  template <class T, size_t n>
  const T& one_of(const T (&list)[n]) {
    return list[below(n)];
  }

  // Numbers in [0, right], now and then others, of that shape.
  Tensor places(IntVector shape, int64_t right, bool ascending = false) {
    const Tensor t = empty(IntList(shape), DType::kInt64);
    int64_t* p = t.data<int64_t>();
    const double wrong = chance(0.5) ? 0 : 0.2;
    for (int64_t i = 0; i < t.numel(); ++i) p[i] = chance(wrong) ? one_of(kNasty) : below(right + 1);
    if (ascending && chance(0.8)) std::sort(p, p + t.numel());
    return chance(0.25) ? to(t, DType::kInt32) : t;
  }
  Tensor numbers(IntVector shape) {
    constexpr DType kTypes[] = {DType::kFloat64, DType::kFloat64, DType::kFloat64,   DType::kFloat32, DType::kFloat32,
                                DType::kInt64,   DType::kFloat16, DType::kComplex64, DType::kBool};
    const Tensor t = empty(IntList(shape), DType::kFloat64);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = static_cast<double>(below(9) - 4) / 2;
    return to(t, type_ == DType::kBool ? one_of(kTypes) : type_);
  }
  Tensor dense(IntVector shape) {
    const Tensor t = numbers(std::move(shape));
    return t.dim() == 2 && chance(0.2) ? transpose(t, 0, 1) : t;
  }

  // A sparse tensor of 4 x 4, perhaps with a batch or a dense dimension, whose members need not make sense.
  Tensor sparse() {
    const int64_t nnz = below(7), kind = below(5), batch = chance(0.15) ? 1 : 0, more = chance(0.15) ? 1 : 0;
    IntVector size, outer;
    for (int64_t i = 0; i < batch; ++i) outer.push_back(2);
    size = outer;
    size.insert(size.end(), {kSide, kSide});
    for (int64_t i = 0; i < more; ++i) size.push_back(3);
    if (kind == 0) {
      const int64_t dims = chance(0.2) ? 1 : 2 + batch;
      IntVector values{nnz};
      values.insert(values.end(), size.begin() + dims, size.end());
      return sparse::make_coo(size, to(places({dims, nnz}, kSide - 1), DType::kInt64), numbers(values), chance(0.3));
    }
    constexpr Layout kLayouts[] = {Layout::kSparseCsr, Layout::kSparseCsc, Layout::kSparseBsr, Layout::kSparseBsc};
    const Layout layout = kLayouts[kind - 1];
    const int64_t side = sparse::has_blocks(layout) ? 2 : 1, lines = kSide / side;
    IntVector c = outer, p = outer, v = outer;
    c.push_back(lines + 1);
    p.push_back(nnz);
    v.push_back(nnz);
    if (side == 2) v.insert(v.end(), {2, 2});
    v.insert(v.end(), size.begin() + batch + 2, size.end());
    Tensor compressed = to(places(c, nnz, true), DType::kInt64), plain = to(places(p, lines - 1), DType::kInt64);
    if (chance(0.7)) {
      fill_(select(compressed, -1, 0), Scalar(0));
      fill_(select(compressed, -1, lines), Scalar(nnz));
    }
    if (chance(0.25)) compressed = to(compressed, DType::kInt32), plain = to(plain, DType::kInt32);
    return sparse::make_compressed(layout, size, compressed, plain, numbers(v));
  }

  // What a call is made of: one kind of numbers, so that its tensors go together.
  void begin_call() { type_ = chance(0.8) ? DType::kFloat64 : DType::kBool; }

  Value argument(const SchemaArgument& a, bool is_sparse, const Tensor& self) {
    const SchemaType& type = a.type.without_optional();
    if (a.type.is_optional() && chance(0.7)) return Value::none();
    switch (type.kind) {
      case TypeKind::kTensor:
        return Value::of(tensor(a.name, is_sparse, self));
      case TypeKind::kList:
        return list(type, is_sparse);
      case TypeKind::kInt:
      case TypeKind::kSymInt:
        // Two thousand million views are no error, and end with the memory.
        if (a.name == "sections" || a.name == "chunks") return Value::of(below(5) - 1);
        return Value::of(chance(0.1) ? one_of(kNasty) : below(5) - 1);
      case TypeKind::kFloat:
        return Value::of(static_cast<double>(below(5)) / 2);
      case TypeKind::kBool:
        return Value::of(chance(0.3));
      case TypeKind::kScalar:
        return Value::of(Scalar(static_cast<double>(below(5)) / 2));
      case TypeKind::kScalarType:
        return Value::of(chance(0.7) ? DType::kFloat64 : DType::kInt64);
      case TypeKind::kLayout:
        return Value::of(static_cast<Layout>(below(6)));
      case TypeKind::kDevice:
        return Value::of(Device());
      case TypeKind::kStr: {
        constexpr const char* kWords[] = {"sum",  "mean", "amax", "amin", "floor",
                                          "none", "prod", "norm", "var",  "logsumexp"};
        return Value::of(std::string(one_of(kWords)));
      }
      default:
        return Value::none();
    }
  }

 private:
  Tensor tensor(const std::string& name, bool is_sparse, const Tensor& self) {
    if (name == "mask" && !is_sparse)
      return to(dense(self.defined() && chance(0.6) ? shape_of(self) : IntVector{1 + below(kSide)}), DType::kBool);
    if (name == "compressed_indices" || name == "offsets" || name == "boundaries" || name == "batch_sizes")
      return places({below(6)}, chance(0.5) ? 3 : 6, true);
    if (name.find("ind") != std::string::npos || name == "lengths" || name == "plain_indices")
      return chance(0.2) ? places({2, below(5)}, kSide - 1) : places({below(7)}, kSide - 1);
    if (is_sparse && (!self.defined() ? chance(0.8) : chance(0.4))) return sparse();
    if (self.defined() && chance(0.6)) return dense(shape_of(self));
    const int64_t n = below(7);
    return n < 4 ? dense({kSide, kSide}) : n < 6 ? dense({kSide}) : dense({});
  }
  Value list(const SchemaType& type, bool is_sparse) {
    if (type.elements[0].without_optional().is(TypeKind::kTensor)) {
      std::vector<Tensor> all;
      for (int64_t n = 1 + below(3); n > 0; --n)
        all.push_back(is_sparse ? sparse() : to(places({below(5)}, kSide - 1), DType::kInt64));
      return Value::of(std::move(all));
    }
    if (!type.elements[0].is(TypeKind::kInt) && !type.elements[0].is(TypeKind::kSymInt)) return Value::none();
    IntVector l;
    for (int64_t n = type.size > 0 ? type.size : 1 + below(3); n > 0; --n)
      l.push_back(chance(0.5) ? kSide : chance(0.08) ? one_of({int64_t{-1}, int64_t{1} << 62, INT64_MIN}) : below(4));
    return Value::of(std::move(l));
  }

  std::mt19937_64 random_;
  DType type_ = DType::kFloat64;
};

// Reads a result, so that a sanitizer sees a tensor that leaves its storage.
double touch(const Tensor& t) {
  if (!t.defined() || t.numel() > 1 << 20) return 0;
  if (sparse::is_sparse(t)) {
    const sparse::Members& m = sparse::members(t);
    return touch(m.values) + touch(m.compressed) + touch(m.plain) + touch(to_dense(t));
  }
  if (t.numel() == 0 || !t.is_cpu()) return 0;
  return sum(to(real(to(t, DType::kComplex128)), DType::kFloat64)).item<double>();
}

enum class Ending { kAnswered, kRefused, kNotServed };

// One call of an operator with random arguments; perhaps backward from its result.
Ending call(const OpInfo& op, const FunctionSchema& schema, Hostile& hostile, bool is_sparse) {
  try {
    hostile.begin_call();
    Stack args, rets(std::max<size_t>(1, schema.returns.size()));
    Tensor self;
    const bool history = hostile.chance(0.2);
    for (const SchemaArgument& a : schema.arguments) {
      args.push_back(hostile.argument(a, is_sparse, self));
      if (!args.back().is_tensor()) continue;
      const Tensor& t = args.back().tensor();
      if (!self.defined()) self = t;
      if (history && t.is_floating_point()) t.requires_grad_();
    }
    op.adapter->call(*op.op, nullptr, args.data(), rets.data());
    for (const Value& r : rets) {
      if (r.is_tensor_list())
        for (const Tensor& t : r.tensor_list()) touch(t);
      if (!r.is_tensor() || !r.tensor().defined()) continue;
      touch(r.tensor());
      if (r.tensor().requires_grad()) sum(r.tensor()).backward();
    }
    return Ending::kAnswered;
  } catch (const NotImplementedError&) { return Ending::kNotServed; } catch (const Error&) {
    return Ending::kRefused;
  } catch (const std::bad_alloc&) {  // a list of 2^31 views
    return Ending::kRefused;
  } catch (const std::length_error&) { return Ending::kRefused; }
}

struct Counts {
  int64_t of[3] = {};
  int64_t operator[](Ending e) const { return of[static_cast<int>(e)]; }
};

// Random calls of these operators, the same number of each.
Counts call_each(const std::vector<const OpInfo*>& ops, int64_t calls, bool is_sparse) {
  Hostile hostile(static_cast<uint64_t>(from_environment("HOSTILE_SEED", 0)));
  Counts all;
  for (const OpInfo* op : ops) {
    const FunctionSchema schema = parse_schema(op->schema());
    for (int64_t i = 0; i < calls / static_cast<int64_t>(ops.size()) + 1; ++i)
      ++all.of[static_cast<int>(call(*op, schema, hostile, is_sparse))];
  }
  printf("%zu operators: %lld answered, %lld refused, %lld not served\n", ops.size(),
         static_cast<long long>(all[Ending::kAnswered]), static_cast<long long>(all[Ending::kRefused]),
         static_cast<long long>(all[Ending::kNotServed]));
  return all;
}

int64_t wanted_calls() { return from_environment("HOSTILE_CALLS", 4000); }

TEST(Hostile, OperatorsOfSparseTensorsNeverReadOutside) {
  // Of all operators those that sparse tensors have something to do with.
  std::vector<const OpInfo*> ops(registry_sparse().begin(), registry_sparse().end());
  for (const OpInfo* op : registry_ops()) {
    const FunctionSchema schema = parse_schema(op->schema());
    if (schema.arguments.empty() || !schema.arguments[0].type.has_tensor()) continue;
    Hostile hostile(1);
    bool served = false;
    for (int i = 0; i < 30 && !served; ++i) served = call(*op, schema, hostile, true) == Ending::kAnswered;
    if (served) ops.push_back(op);
  }
  EXPECT_GT(ops.size(), 150);
  const Counts n = call_each(ops, wanted_calls(), true);
  EXPECT_GT(n[Ending::kAnswered], wanted_calls() / 10);
  EXPECT_GT(n[Ending::kRefused], wanted_calls() / 10);
}

TEST(Hostile, OperatorsOfIndicesAndOffsetsNeverReadOutside) {
  const auto takes_places = [](const OpInfo& op) {
    const std::string_view s = op.schema();
    for (const char* name : {" indices", " offsets", " index", " batch_sizes", " lengths", " boundaries"})
      if (s.find(std::string("Tensor") + name) != s.npos) return true;
    return s.find("indices)") != s.npos;
  };
  std::vector<const OpInfo*> ops;
  for (const OpInfoList list : {OpInfoList(registry_ops()), OpInfoList(registry_nn_ops())})
    for (const OpInfo* op : list)
      if (takes_places(*op)) ops.push_back(op);
  EXPECT_GT(ops.size(), 30);
  const Counts n = call_each(ops, wanted_calls(), false);
  EXPECT_GT(n[Ending::kAnswered], wanted_calls() / 50);
  EXPECT_GT(n[Ending::kRefused], wanted_calls() / 10);
}

TEST(Hostile, OperatorsUnderAMaskNeverReadOutside) {
  const std::vector<const OpInfo*> ops(registry_masked().begin(), registry_masked().end());
  const Counts n = call_each(ops, wanted_calls(), false);
  EXPECT_GT(n[Ending::kAnswered], wanted_calls() / 10);
  EXPECT_GT(n[Ending::kRefused], wanted_calls() / 10);
}

}  // namespace
}  // namespace tessera
