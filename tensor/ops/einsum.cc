// einsum: the equation is read into labels, operands are multiplied pair by pair as batches of matrices.
#include <algorithm>
#include <array>

#include "tensor/ops/api.h"
#include "tensor/ops/matmul_kernels.h"

namespace tessera::kernels {
namespace {

// A label is a letter (upper case before lower case, the order of implicit outputs) or a dimension of the ellipsis,
// counted from its right end.
constexpr int kLetters = 52;
using Labels = std::vector<int>;

int letter(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }
std::string name_of_label(int label) {
  if (label >= kLetters) return "...";
  return std::string(1, static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26));
}

// Letters as labels, kEllipsis where it stood.
constexpr int kEllipsis = -1;
Labels parse_subscripts(std::string_view equation, size_t begin, size_t end, const std::string& where) {
  Labels out;
  bool ellipsis = false;
  for (size_t i = begin; i < end; ++i) {
    const char c = equation[i];
    if (c == ' ') continue;
    if (c == '.') {
      TESSERA_CHECK(!ellipsis, "einsum(): found '.' for ", where, " for which an ellipsis was already found");
      TESSERA_CHECK(i + 2 < end && equation[i + 1] == '.' && equation[i + 2] == '.', "einsum(): found '.' for ", where,
                    " that is not part of any ellipsis (...)");
      ellipsis = true;
      i += 2;
      out.push_back(kEllipsis);
      continue;
    }
    TESSERA_CHECK(letter(c) >= 0, "einsum(): invalid subscript given at index ", i,
                  " in the equation string, subscripts must be in [a-zA-Z]");
    out.push_back(letter(c));
  }
  return out;
}

struct Equation {
  std::vector<Labels> inputs;
  std::optional<Labels> output;
};
Equation parse(std::string_view equation, size_t operands) {
  Equation r;
  const size_t arrow = equation.find("->"), end = arrow == std::string_view::npos ? equation.size() : arrow;
  for (size_t begin = 0; begin <= end;) {
    const size_t comma = std::min(equation.find(',', begin), end);
    TESSERA_CHECK(r.inputs.size() < operands, "einsum(): fewer operands were provided than specified in the equation");
    r.inputs.push_back(parse_subscripts(equation, begin, comma, str_cat("operand ", r.inputs.size())));
    begin = comma + 1;
  }
  TESSERA_CHECK(r.inputs.size() == operands, "einsum(): more operands were provided than specified in the equation");
  if (arrow != std::string_view::npos) r.output = parse_subscripts(equation, arrow + 2, equation.size(), "output");
  return r;
}

struct Operand {
  Tensor t;
  Labels labels;  // of its dimensions, each once
  int64_t find(int label) const {
    const auto at = std::find(labels.begin(), labels.end(), label);
    return at == labels.end() ? -1 : at - labels.begin();
  }
  void drop(int64_t d) { labels.erase(labels.begin() + d); }
};

// One label a dimension: the ellipsis spelled out, diagonals where a letter is repeated.
Operand make_operand(const Tensor& t, const Labels& subscripts, size_t index) {
  const bool ellipsis = std::find(subscripts.begin(), subscripts.end(), kEllipsis) != subscripts.end();
  const int64_t letters = static_cast<int64_t>(subscripts.size()) - ellipsis;
  if (ellipsis)
    TESSERA_CHECK(letters <= t.dim(), "einsum(): the number of subscripts in the equation (", letters,
                  ") is more than the number of dimensions (", t.dim(), ") for operand ", index);
  else
    TESSERA_CHECK(letters == t.dim(), "einsum(): the number of subscripts in the equation (", letters,
                  ") does not match the number of dimensions (", t.dim(), ") for operand ", index,
                  " and no ellipsis was given");
  Operand r{t, {}};
  for (const int s : subscripts) {
    if (s != kEllipsis) {
      r.labels.push_back(s);
      continue;
    }
    for (int64_t k = t.dim() - letters; k-- > 0;) r.labels.push_back(kLetters + static_cast<int>(k));
  }
  for (size_t d = 0; d < r.labels.size();) {
    const int64_t first = r.find(r.labels[d]);
    if (first == static_cast<int64_t>(d)) {
      ++d;
      continue;
    }
    const int64_t a = r.t.sizes()[first], b = r.t.sizes()[d];
    TESSERA_CHECK(a == b, "einsum(): subscript ", name_of_label(r.labels[d]), " is repeated for operand ", index,
                  " but the sizes don't match, ", b, " != ", a);
    const int label = r.labels[d];
    r.t = diagonal(r.t, 0, first, static_cast<int64_t>(d));  // its dimension becomes the last one
    r.drop(static_cast<int64_t>(d));
    r.drop(first);
    r.labels.push_back(label);
    d = 0;
  }
  return r;
}

Labels output_labels(const Equation& equation, const std::vector<Operand>& operands) {
  int ellipsis = 0;
  for (const Operand& o : operands)
    for (const int l : o.labels) ellipsis = std::max(ellipsis, l - kLetters + 1);
  Labels out;
  const auto add_ellipsis = [&] {
    for (int k = ellipsis; k-- > 0;) out.push_back(kLetters + k);
  };
  std::array<int, kLetters> uses{};
  for (const Labels& input : equation.inputs)
    for (const int l : input)
      if (l != kEllipsis) ++uses[l];
  if (!equation.output) {
    add_ellipsis();
    for (int l = 0; l < kLetters; ++l)
      if (uses[l] == 1) out.push_back(l);
    return out;
  }
  for (const int l : *equation.output) {
    if (l == kEllipsis) {
      add_ellipsis();
      continue;
    }
    TESSERA_CHECK(std::find(out.begin(), out.end(), l) == out.end(), "einsum(): output subscript ", name_of_label(l),
                  " appears more than once in the output");
    TESSERA_CHECK(uses[l] > 0, "einsum(): output subscript ", name_of_label(l),
                  " does not appear in the equation for any input operand");
    out.push_back(l);
  }
  return out;
}

void check_sizes(const std::vector<Operand>& operands) {
  std::vector<std::pair<int, int64_t>> seen;
  for (size_t k = 0; k < operands.size(); ++k) {
    for (size_t d = 0; d < operands[k].labels.size(); ++d) {
      const int label = operands[k].labels[d];
      const int64_t size = operands[k].t.sizes()[d];
      const auto at = std::find_if(seen.begin(), seen.end(), [&](const auto& s) { return s.first == label; });
      if (at == seen.end()) {
        seen.push_back({label, size});
        continue;
      }
      TESSERA_CHECK(size == at->second || size == 1 || at->second == 1, "einsum(): subscript ", name_of_label(label),
                    " has size ", size, " for operand ", k, " which does not broadcast with previously seen size ",
                    at->second);
      if (at->second == 1) at->second = size;
    }
  }
}

// Without the given labels: summed, in the tensor's own dtype where the result is a factor.
void sum_out(Operand& o, const Labels& labels, bool keep_dtype) {
  IntVector dims;
  for (const int l : labels)
    if (const int64_t d = o.find(l); d >= 0) dims.push_back(d);
  if (dims.empty()) return;
  o.t = sum(o.t, IntList(dims), false, keep_dtype ? std::optional<DType>(o.t.dtype()) : std::nullopt);
  std::sort(dims.begin(), dims.end(), std::greater<>());
  for (const int64_t d : dims) o.drop(d);
}

Tensor arranged(const Operand& o, std::initializer_list<const Labels*> groups) {
  IntVector order;
  for (const Labels* g : groups)
    for (const int l : *g) order.push_back(o.find(l));
  return std::is_sorted(order.begin(), order.end()) ? o.t : permute(o.t, IntList(order));
}
int64_t extent(const Operand& o, const Labels& labels, IntVector* sizes = nullptr) {
  int64_t n = 1;
  for (const int l : labels) {
    const int64_t s = o.t.sizes()[o.find(l)];
    n *= s;
    if (sizes) sizes->push_back(s);
  }
  return n;
}

// The product of two operands, summed over the labels that nobody needs any more.
template <class Kept>
Operand multiply(Operand a, Operand b, Kept kept) {
  // What only one side varies with is that side's own: sizes of 1 that broadcast go.
  for (Operand* o : {&a, &b}) {
    Operand& other = o == &a ? b : a;
    for (int64_t d = static_cast<int64_t>(o->labels.size()); d-- > 0;) {
      const int64_t there = other.find(o->labels[d]);
      if (there < 0 || o->t.sizes()[d] != 1 || other.t.sizes()[there] == 1) continue;
      o->t = squeeze(o->t, d);
      o->drop(d);
    }
  }
  Labels batch, left, right, summed, left_only, right_only;
  for (const int l : a.labels)
    (b.find(l) >= 0 ? (kept(l) ? batch : summed) : (kept(l) ? left : left_only)).push_back(l);
  for (const int l : b.labels)
    if (a.find(l) < 0) (kept(l) ? right : right_only).push_back(l);
  sum_out(a, left_only, true);
  sum_out(b, right_only, true);
  IntVector sizes;
  const int64_t n = extent(a, batch, &sizes), rows = extent(a, left, &sizes), inner = extent(a, summed),
                columns = extent(b, right, &sizes);
  Operand r;
  for (const Labels* g : {&batch, &left, &right}) r.labels.insert(r.labels.end(), g->begin(), g->end());
  Tensor x = arranged(a, {&batch, &left, &summed}), y = arranged(b, {&batch, &summed, &right});
  if (summed.empty()) {
    // An outer product: broadcasting does it without copies.
    for (size_t k = 0; k < right.size(); ++k) x = unsqueeze(x, -1);
    for (size_t k = 0; k < left.size(); ++k) y = unsqueeze(y, static_cast<int64_t>(batch.size()));
    r.t = mul(x, y);
    return r;
  }
  r.t = reshape(bmm(reshape(x, {n, rows, inner}), reshape(y, {n, inner, columns})), IntList(sizes));
  return r;
}

std::pair<size_t, size_t> next_pair(const std::optional<IntList>& path, size_t step, size_t left) {
  if (!path) return {0, 1};
  const int64_t i = std::min((*path)[2 * step], (*path)[2 * step + 1]),
                j = std::max((*path)[2 * step], (*path)[2 * step + 1]);
  TESSERA_CHECK(i >= 0 && i != j && j < static_cast<int64_t>(left), "einsum(): invalid contraction path (",
                (*path)[2 * step], ", ", (*path)[2 * step + 1], ") with ", left, " operands left");
  return {static_cast<size_t>(i), static_cast<size_t>(j)};
}

}  // namespace

Tensor einsum_composite(std::string_view equation, TensorList tensors, std::optional<IntList> path) {
  TESSERA_CHECK_VALUE(!tensors.empty(), "einsum(): must provide at least one operand");
  const size_t wanted = tensors.size() == 1 ? 2 : 2 * (tensors.size() - 1);
  TESSERA_CHECK(!path || path->size() == wanted,
                "einsum(): expected contraction path given in path parameter to have size ", wanted, " but got ",
                path->size());
  const Equation parsed = parse(equation, tensors.size());
  std::vector<Operand> operands;
  for (size_t k = 0; k < tensors.size(); ++k) operands.push_back(make_operand(tensors[k], parsed.inputs[k], k));
  const Labels output = output_labels(parsed, operands);
  check_sizes(operands);
  const auto in_output = [&](int label) { return std::find(output.begin(), output.end(), label) != output.end(); };
  for (size_t step = 0; operands.size() > 1; ++step) {
    const auto [i, j] = next_pair(path, step, operands.size());
    Operand a = std::move(operands[i]), b = std::move(operands[j]);
    operands.erase(operands.begin() + static_cast<ptrdiff_t>(j));
    operands.erase(operands.begin() + static_cast<ptrdiff_t>(i));
    const auto kept = [&](int label) {
      return in_output(label) ||
             std::any_of(operands.begin(), operands.end(), [&](const Operand& o) { return o.find(label) >= 0; });
    };
    operands.insert(path ? operands.end() : operands.begin(), multiply(std::move(a), std::move(b), kept));
  }
  Operand& last = operands.front();
  Labels rest;
  for (const int l : last.labels)
    if (!in_output(l)) rest.push_back(l);
  sum_out(last, rest, false);
  return arranged(last, {&output});
}

}  // namespace tessera::kernels
