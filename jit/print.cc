#include "jit/print.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdio>

#include "tensor/ops/api.h"

namespace tessera::jit {
namespace {

std::atomic<PrintHandler> g_print = nullptr;

std::string printed(const char* form, int width, double v) {
  char room[400];
  const int n = std::snprintf(room, sizeof room, form, width, v);
  return std::string(room, static_cast<size_t>(std::min<int>(n, sizeof room - 1)));
}

// How the elements of a matrix are shown: one width, and a factor that stands before them.
struct NumberStyle {
  double scale = 1;
  int width = 0;
  const char* form = "%*g";

  NumberStyle(const double* v, int64_t n) {
    double low = INFINITY, high = 0;
    bool whole = true;
    for (int64_t i = 0; i < n; ++i) {
      if (!std::isfinite(v[i])) continue;
      whole = whole && v[i] == std::ceil(v[i]);
      low = std::min(low, std::fabs(v[i]));
      high = std::max(high, std::fabs(v[i]));
    }
    const int least = digits(low), most = digits(high);
    if (whole && most <= 9) {
      width = most + 1;
    } else if (whole || most - least > 4) {
      form = "%*.4e";
      width = 11 + (!whole && (std::abs(most) > 99 || std::abs(least) > 99));
    } else {
      form = "%*.4f";
      width = most > 5 || most <= 0 ? 7 : most + 6;
      if (most > 5 || most < 0) scale = std::pow(10.0, most - 1);
    }
  }
  static int digits(double v) {
    return v == 0 || !std::isfinite(v) ? 1 : static_cast<int>(std::floor(std::log10(v))) + 1;
  }
  std::string operator()(double v) const { return printed(form, width, v / scale); }
  std::string factor() const { return scale == 1 ? "" : printed("%*g *\n", 0, scale); }
};

// As many columns at a time as fit into a line of 80 characters.
std::string matrix_text(const double* v, int64_t rows, int64_t columns, bool inner) {
  const NumberStyle style(v, rows * columns);
  const int64_t room = std::max<int64_t>(1, (80 - inner) / (style.width + 1));
  const std::string pad = inner ? " " : "", later = (style.scale != 1 ? " " : "") + pad;
  std::string s;
  for (int64_t from = 0; from < columns; from += room) {
    const int64_t to = std::min(columns, from + room);
    if (room < columns)
      s += str_cat(from ? "\nColumns " : "Columns ", from + 1, " to ", to) + (style.scale == 1 ? "" : " ");
    s += style.factor() + (style.scale == 1 ? "" : pad);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = from; c < to; ++c) s += style(v[r * columns + c]) + (c + 1 == to ? "\n" : " ");
      if (r + 1 < rows) s += later;
    }
  }
  return s;
}

// The elements, one matrix after the other, the first dimension fastest, then type and sizes.
std::string tensor_text(const Tensor& t) {
  const NoGradGuard quiet;
  const Tensor real = t.is_complex() ? tessera::real(t) : t;
  const Tensor whole = real.to(Device(), DType::kFloat64).contiguous();
  const double* v = whole.data<double>();
  const int64_t n = whole.dim();
  std::string s;
  if (n == 0) {
    s = number_text(*v);
    if (s.ends_with(".0")) s.resize(s.size() - 2);
    s += '\n';
  } else if (whole.numel() && n == 1) {
    const NumberStyle style(v, whole.numel());
    s = style.factor();
    for (int64_t i = 0; i < whole.numel(); ++i) s += style(v[i]) + "\n";
  } else if (whole.numel()) {
    const int64_t area = whole.size(-2) * whole.size(-1);
    for (int64_t k = 0; k * area < whole.numel(); ++k) {
      int64_t rest = k, offset = 0;
      std::string place;
      for (int64_t d = 0; d < n - 2; ++d) {
        const int64_t at = rest % whole.size(d);
        rest /= whole.size(d);
        offset += at * whole.stride(d);
        place += str_cat(at + 1, ",");
      }
      if (n > 2) s += str_cat(k ? "\n(" : "(", place, ".,.) = \n");
      s += matrix_text(v + offset, whole.size(-2), whole.size(-1), n > 2);
    }
  }
  s += str_cat("[ ", t.is_cpu() ? "CPU" : "CUDA", type_name_of(t.dtype()), "Type{");
  for (int64_t i = 0; i < t.dim(); ++i) s += str_cat(i ? "," : "", t.size(i));
  return s + "} ]";
}

// With all its digits, and a point.
std::string float_text(double d) {
  if (!std::isfinite(d)) return number_text(d);
  std::string s = printed("%*.17g", 0, d);
  return s.find_first_of(".e") == std::string::npos ? s + "." : s;
}

}  // namespace

void set_print_handler(PrintHandler handler) { g_print = handler; }
void print_line(const std::string& line) {
  if (PrintHandler h = g_print.load()) return h(line);
  std::fwrite(line.data(), 1, line.size(), stdout);
}

std::string shown(const Value& v) {
  switch (v.tag()) {
    case Value::Tag::kDouble:
      return float_text(v.number());
    case Value::Tag::kComplex: {
      const std::complex<double> c = v.scalar().to_complex();
      return str_cat(float_text(c.real()), std::signbit(c.imag()) ? "" : "+", float_text(c.imag()), "j");
    }
    case Value::Tag::kTensor:
      return v.tensor().defined() ? tensor_text(v.tensor()) : "None";
    case Value::Tag::kObject:
      break;
    default:
      return to_text(v);
  }
  const Object* o = object_of(v);
  std::string s;
  const auto add = [&](const Value& e, const char* between) { s += (s.empty() ? "" : between) + shown(e); };
  if (o && o->kind == ObjectKind::kList) {
    for (const Value& e : static_cast<const List*>(o)->items) add(e, ", ");
    return "[" + s + "]";
  }
  if (o && o->kind == ObjectKind::kTuple) {
    const auto& items = static_cast<const Tuple*>(o)->items;
    for (const Value& e : items) add(e, ", ");
    return "(" + s + (items.size() == 1 ? ",)" : ")");
  }
  if (o && o->kind == ObjectKind::kDict) {
    for (const auto& [k, e] : static_cast<const Dict*>(o)->items)
      s += str_cat(s.empty() ? "" : ", ", shown(k), ": ", shown(e));
    return "{" + s + "}";
  }
  return to_text(v);
}

}  // namespace tessera::jit
