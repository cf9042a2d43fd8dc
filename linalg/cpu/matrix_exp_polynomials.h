// exp(A) by a Taylor polynomial of A / 2^s, squared s times.
//
// The polynomials have the degrees 1, 2, 4, 8, 12 and 18, which take 0, 1, 2, 3, 4 and 5 products by the schemes of
// P. Bader, S. Blanes and F. Casas, "Computing the matrix exponential with an optimized Taylor polynomial
// approximation", Mathematics 7 (2019) 1174; its table 2 says up to which 1-norm of A each is exact to rounding. Only
// the last is scaled.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <utility>

namespace tessera::cpu {

// What a matrix takes: a polynomial, by its number, and squarings. Of an infinite norm, or nan: kNone.
struct ExponentialPlan {
  static constexpr int kNone = -1;
  int polynomial, squarings;
  auto operator<=>(const ExponentialPlan&) const = default;

  static ExponentialPlan of(double norm, bool single) {
    // The largest 1-norms.
    constexpr double kLargest[2][6] = {{1.192092800768788e-07, 5.978858893805233e-04, 5.116619363445086e-02,
                                        5.800524627688768e-01, 1.461661507209034e+00, 3.010066362817634e+00},
                                       {2.220446049250313e-16, 2.580956802971767e-08, 3.397168839976962e-04,
                                        4.991228871115323e-02, 2.996158913811580e-01, 1.090863719290036e+00}};
    const double* const largest = kLargest[single ? 0 : 1];
    if (!std::isfinite(norm)) return {kNone, 0};
    for (int i = 0; i < 6; ++i)
      if (norm <= largest[i]) return {i, 0};
    return {5, std::max(0, std::ilogb(norm / largest[5]) + 1)};
  }
};

// The polynomials. Self, which derives from this one, has the matrices of one size (one, or a batch): it knows
//   Matrix room(int i): one of kMatrices places; the first holds A;
//   Matrix combined(Matrix to, double diagonal, const Term (&terms)[N]): `to` = diagonal times the identity, plus the
//     weighted terms, of which `to` may be one;
//   Matrix product(Matrix a, Matrix b, Matrix to, bool add): `to` = a b, or with `add` what is there as well.
// The last two return `to`.
template <class Self, class Matrix>
class ExponentialPolynomials {
 public:
  static constexpr int kMatrices = 7;
  struct Term {
    Matrix matrix;
    double weight;
  };

  // exp of room(0), in one of the places.
  Matrix exponential(const ExponentialPlan& plan) {
    const Matrix A = self().room(0);
    switch (plan.polynomial) {
      case 0:
        return self().combined(self().room(1), 1, {{A, 1}});
      case 1:
        return degree_2(A);
      case 2:
        return degree_4(A);
      case 3:
        return degree_8(A);
      case 4:
        return degree_12(A);
      default:
        break;
    }
    if (plan.squarings > 0) self().combined(A, 0, {{A, std::ldexp(1.0, -plan.squarings)}});
    Matrix power = degree_18(A), next = A;
    for (int i = 0; i < plan.squarings; ++i) {
      self().product(power, power, next, false);
      std::swap(power, next);
    }
    return power;
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  Matrix degree_2(Matrix A) {
    Matrix A2 = self().product(A, A, self().room(1), false);
    return self().combined(self().room(2), 1, {{A, 1}, {A2, 0.5}});
  }

  Matrix degree_4(Matrix A) {
    Matrix A2 = self().product(A, A, self().room(1), false);
    Matrix rest = self().combined(self().room(2), 0.5, {{A, 1.0 / 6}, {A2, 1.0 / 24}});
    return self().product(A2, rest, self().combined(self().room(3), 1, {{A, 1}}), true);
  }

  Matrix degree_8(Matrix A) {
    Matrix A2 = self().product(A, A, self().room(1), false);
    Matrix A4 = self().product(
        A2, self().combined(self().room(2), 0, {{A, 0.10836465678522780852}, {A2, 0.027091164196306952131}}),
        self().room(3), false);
    Matrix left = self().combined(self().room(2), 0, {{A2, 2.0 / 3}, {A4, 1}});
    Matrix right =
        self().combined(self().room(4), 0.54676145797072405251,
                        {{A, 0.16112557339541759283}, {A2, 0.014090917158378207731}, {A4, 0.033792797010870504141}});
    return self().product(left, right, self().combined(self().room(5), 1, {{A, 1}, {A2, 0.13549236135285063166}}),
                          true);
  }

  Matrix degree_12(Matrix A) {
    Matrix A2 = self().product(A, A, self().room(1), false);
    Matrix A3 = self().product(A2, A, self().room(2), false);
    const auto cubic = [&](Matrix to, double c0, double c1, double c2, double c3) {
      return self().combined(to, c0, {{A, c1}, {A2, c2}, {A3, c3}});
    };
    Matrix root = cubic(self().room(3), -2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079,
                        -0.00675951846863086359);
    Matrix A6 = cubic(self().room(4), 0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968,
                      0.00610700528898058230);
    self().product(root, root, A6, true);
    Matrix left = cubic(self().room(3), 5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031,
                        0.01108844528519167989);
    self().combined(left, 0, {{left, 1}, {A6, 1}});
    Matrix result =
        cubic(self().room(5), 9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740);
    return self().product(left, A6, result, true);
  }

  Matrix degree_18(Matrix A) {
    Matrix A2 = self().product(A, A, self().room(1), false);
    Matrix A3 = self().product(A2, A, self().room(2), false);
    Matrix A6 = self().product(A3, A3, self().room(3), false);
    Matrix left =
        self().combined(self().room(4), 0,
                        {{A, -0.10036558103014462001}, {A2, -0.00802924648241156960}, {A3, -0.00089213849804572995}});
    Matrix right =
        self().combined(self().room(5), 0,
                        {{A2, -0.09233646193671185927}, {A3, -0.01693649390020817171}, {A6, -0.00001400867981820361}});
    Matrix A9 = self().combined(self().room(6), -0.09043168323908105619,
                                {{A, -0.06764045190713819075},
                                 {A2, 0.06759613017704596460},
                                 {A3, 0.02955525704293155274},
                                 {A6, -0.00001391802575160607}});
    self().product(left, right, A9, true);
    Matrix sum = self().combined(self().room(4), -10.9676396052962062593,
                                 {{A, 1.68015813878906197182},
                                  {A2, 0.05717798464788655127},
                                  {A3, -0.00698210122488052084},
                                  {A6, 0.00003349750170860705},
                                  {A9, 1}});
    Matrix result = self().combined(self().room(5), 0,
                                    {{A, 0.39784974949964507614},
                                     {A2, 1.36783778460411719922},
                                     {A3, 0.49828962252538267755},
                                     {A6, -0.00063789819459472330}});
    return self().product(sum, A9, result, true);
  }
};

}  // namespace tessera::cpu
