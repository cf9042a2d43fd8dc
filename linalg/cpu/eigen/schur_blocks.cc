#include "linalg/cpu/eigen/schur_blocks.h"

namespace tessera::cpu::columns {

template <class R>
Turn<R> standardize(R& a, R& b, R& c, R& d, std::complex<R>* w) {
  Turn<R> q{1, 0};
  const auto opposite = [](R x, R y) { return std::signbit(x) != std::signbit(y); };
  if (c == 0) {
    // As it should be.
  } else if (b == 0) {
    q = {0, 1};
    std::swap(a, d);
    b = -c;
    c = 0;
  } else if (a != d || !opposite(b, c)) {
    const R half = (a - d) / 2, big = std::max(std::abs(b), std::abs(c));
    const R small = std::min(std::abs(b), std::abs(c)) * (opposite(b, c) ? R(-1) : R(1));
    const R scale = std::max(std::abs(half), big), z = half / scale * half + big / scale * small;
    if (z >= 4 * kEps<R>) {  // real and apart
      const R shift = half + std::copysign(std::sqrt(scale) * std::sqrt(z), half), length = std::hypot(c, shift);
      a = d + shift;
      d -= big / shift * small;
      q = {shift / length, c / length};
      b -= c;
      c = 0;
    } else {  // complex, or nearly equal: the diagonal is made equal
      const R sum = b + c, length = std::hypot(sum, a - d);
      q.c = std::sqrt((1 + std::abs(sum) / length) / 2);
      q.s = -(half / (length * q.c)) * std::copysign(R(1), sum);
      const R aa = a * q.c + b * q.s, bb = b * q.c - a * q.s, cc = c * q.c + d * q.s, dd = d * q.c - c * q.s;
      const R middle = (aa * q.c + cc * q.s + (dd * q.c - bb * q.s)) / 2;
      b = bb * q.c + dd * q.s;
      c = cc * q.c - aa * q.s;
      a = d = middle;
      if (c != 0 && b == 0) {
        b = -c;
        c = 0;
        q = {-q.s, q.c};
      } else if (c != 0 && !opposite(b, c)) {  // real after all
        const R rb = std::sqrt(std::abs(b)), rc = std::sqrt(std::abs(c)), f = 1 / std::sqrt(std::abs(b + c));
        const R apart = std::copysign(rb * rc, c);
        a = middle + apart;
        d = middle - apart;
        b -= c;
        c = 0;
        const R c1 = rb * f, s1 = rc * f;
        q = {q.c * c1 - q.s * s1, q.c * s1 + q.s * c1};
      }
    }
  }
  const R im = c == 0 ? R(0) : std::sqrt(std::abs(b)) * std::sqrt(std::abs(c));
  w[0] = {a, im};
  w[1] = {d, -im};
  return q;
}

template Turn<float> standardize(float&, float&, float&, float&, std::complex<float>*);
template Turn<double> standardize(double&, double&, double&, double&, std::complex<double>*);

}  // namespace tessera::cpu::columns
