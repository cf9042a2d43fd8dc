// Tensors in streams.
#pragma once

#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>

#include "ATen/core/Tensor.h"

namespace at {
namespace detail {

// How all elements of a tensor are shown: a width, and a factor that is printed before them.
struct NumberStyle {
  double scale = 1;
  int width = 0;
  bool scientific = false, whole = true;

  explicit NumberStyle(const std::vector<double>& values) {
    double low = INFINITY, high = 0;
    for (const double v : values) {
      if (!std::isfinite(v)) continue;
      whole = whole && v == std::ceil(v);
      low = std::min(low, std::abs(v));
      high = std::max(high, std::abs(v));
    }
    auto digits = [](double v) {
      return v == 0 || !std::isfinite(v) ? 1 : static_cast<int>(std::floor(std::log10(v))) + 1;
    };
    const int least = digits(low), most = digits(high);
    if (whole) {
      scientific = most > 9;
      width = scientific ? 11 : most + 1;
    } else if (most - least > 4) {
      scientific = true;
      width = 11 + (std::abs(most) > 99 || std::abs(least) > 99);
    } else if (most > 5 || most < 0) {
      width = 7;
      scale = std::pow(10.0, most - 1);
    } else {
      width = most == 0 ? 7 : most + 6;
    }
  }
  void begin(std::ostream& out) const {
    if (scientific)
      out << std::scientific << std::setprecision(4);
    else if (whole)
      out << std::defaultfloat << std::setprecision(6);
    else
      out << std::fixed << std::setprecision(4);
  }
  void factor(std::ostream& out) const {
    out << std::defaultfloat << std::setprecision(6) << scale << " *\n";
    begin(out);
  }
};
class KeepFormat {
 public:
  explicit KeepFormat(std::ostream& out) : out_(out), saved_(nullptr) { saved_.copyfmt(out); }
  ~KeepFormat() { out_.copyfmt(saved_); }

 private:
  std::ostream& out_;
  std::ios saved_;
};

// With the fewest digits that read back.
inline void print_number(std::ostream& out, double v) {
  char text[32];
  int digits = 1;
  do std::snprintf(text, sizeof text, "%.*e", digits - 1, v);
  while (++digits <= 17 && std::isfinite(v) && std::strtod(text, nullptr) != v);
  const char* e = std::strchr(text, 'e');
  const int exponent = e ? std::atoi(e + 1) : 0;
  if (std::isfinite(v) && exponent >= -4 && exponent < 16)
    std::snprintf(text, sizeof text, "%.*f", std::max(0, digits - 2 - exponent), v);
  else if (!std::isfinite(v))
    std::snprintf(text, sizeof text, "%f", v);
  out << text;
}

// A matrix of `values`, rows * columns, as many columns at a time as fit into a line.
inline void print_matrix(std::ostream& out, const double* values, const NumberStyle& style, int64_t rows,
                         int64_t columns, int64_t line, bool inner) {
  const int64_t room = std::max<int64_t>(1, (line - (inner ? 1 : 0)) / (style.width + 1));
  const char* pad = inner ? " " : "";
  for (int64_t from = 0; from < columns; from += room) {
    const int64_t to = std::min(columns, from + room);
    if (room < columns) {
      if (from > 0) out << '\n';
      out << "Columns " << from + 1 << " to " << to;
    }
    if (style.scale != 1) {
      style.factor(out);
      out << pad;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = from; c < to; ++c)
        out << std::setw(style.width) << values[r * columns + c] / style.scale << (c + 1 == to ? "\n" : " ");
      if (r + 1 < rows) out << (style.scale != 1 ? " " : "") << pad;
    }
  }
}

}  // namespace detail

std::ostream& operator<<(std::ostream& out, const Tensor& t);
inline std::ostream& print(std::ostream& out, const Tensor& tensor, int64_t line) {
  const detail::KeepFormat keep(out);
  if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
  if (tensor.is_sparse()) {
    out << "[ " << tensor.toString() << "{}\nindices:\n" << tensor._indices() << "\nvalues:\n" << tensor._values();
    return out << "\nsize:\n" << tensor.sizes() << "\n]";
  }
  auto type = [&] {
    out << "[ " << tensor.toString() << '{';
    for (int64_t d = 0; d < tensor.dim(); ++d) out << (d ? "," : "") << tensor.size(d);
    out << "} ]";
  };
  const NoGradGuard quiet;
  const Tensor real = tensor.is_complex() ? at::real(tensor) : tensor;
  const Tensor plain = real.to(TensorOptions(kCPU).dtype(kDouble)).resolve_conj().contiguous();
  const double* data = plain.const_data_ptr<double>();
  if (plain.dim() == 0) {
    detail::print_number(out, data[0]);
    out << '\n';
  } else if (plain.numel() > 0) {
    if (plain.dim() == 1) {
      const detail::NumberStyle style({data, data + plain.numel()});
      style.begin(out);
      if (style.scale != 1) style.factor(out);
      for (int64_t i = 0; i < plain.numel(); ++i) out << std::setw(style.width) << data[i] / style.scale << '\n';
    } else {
      const int64_t n = plain.dim(), rows = plain.size(-2), columns = plain.size(-1), area = rows * columns;
      std::vector<int64_t> at(static_cast<size_t>(n - 2));
      for (int64_t k = 0; k * area < plain.numel(); ++k) {
        // The first dimension runs fastest.
        int64_t rest = k, offset = 0;
        for (int64_t d = 0; d < n - 2; ++d) {
          at[static_cast<size_t>(d)] = rest % plain.size(d);
          rest /= plain.size(d);
          offset += at[static_cast<size_t>(d)] * plain.stride(d);
        }
        if (n > 2) {
          if (k > 0) out << '\n';
          out << '(';
          for (const int64_t i : at) out << i + 1 << ',';
          out << ".,.) = \n";
        }
        const detail::NumberStyle style({data + offset, data + offset + area});
        style.begin(out);
        detail::print_matrix(out, data + offset, style, rows, columns, line, n > 2);
      }
    }
  }
  type();
  return out;
}
inline std::ostream& operator<<(std::ostream& out, const Tensor& t) { return print(out, t, 80); }
inline void print(const Tensor& t, int64_t line = 80) { print(std::cout, t, line); }
inline void Tensor::print() const {
  if (defined())
    std::cerr << '[' << toString() << ' ' << sizes() << ']' << '\n';
  else
    std::cerr << "[UndefinedTensor]" << '\n';
}

}  // namespace at
