// The elementwise ops that have block kernels. One constant each; it is the only thing that refers to the op's kernels, so a program that
// does not name it does not link them.
//
// Notation: op(inputs)[params]. Params are KernelParam: .f for floating compute dtypes, .i for integers and bool, .c for complex ones. "real" below means
// all floating dtypes; "ints" uint8, int8..int64; "wide" uint16..uint64. float16/bfloat16 compute in float32.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/cpu/pointwise.h"

namespace tessera::pw {

#define TESSERA_PW(name) extern const PointwiseOp name

// Arithmetic.
TESSERA_PW(add);         // (a, b)[alpha]: a + alpha b. bool: or
TESSERA_PW(sub);         // (a, b)[alpha]: a - alpha b. not bool
TESSERA_PW(rsub);        // (a, b)[alpha]: b - alpha a. not bool
TESSERA_PW(mul);         // (a, b): bool: and; wide too
TESSERA_PW(div);         // (a, b): true quotient; integers compute in the default dtype
TESSERA_PW(div_trunc);   // (a, b): quotient rounded to zero; ints: call cpu::check_integer_divisor first
TESSERA_PW(div_floor);   // (a, b): Python's //; ints as above
TESSERA_PW(remainder);   // (a, b): Python's %, sign of b; ints as above
TESSERA_PW(fmod);        // (a, b): C's fmod, sign of a; ints as above
TESSERA_PW(pow);         // (base, exponent): ints wrap; a negative integer exponent gives 0 unless base is 1 or -1
TESSERA_PW(atan2);       // (y, x)
TESSERA_PW(copysign);    // (magnitude, sign)
TESSERA_PW(hypot);       // (a, b): real
TESSERA_PW(maximum);     // (a, b): nan if either is
TESSERA_PW(minimum);
TESSERA_PW(fmax);        // (a, b): the other one if one is nan
TESSERA_PW(fmin);
TESSERA_PW(xlogy);       // (x, y): x log y; 0 where x is 0 and y is no nan
TESSERA_PW(xlog1py);     // (x, y): x log(1 + y); likewise
TESSERA_PW(nextafter);   // (from, to): real, in the dtype itself
TESSERA_PW(heaviside);   // (x, values): 0, values, 1 for x <, =, > 0; nan gives 0
TESSERA_PW(logaddexp);   // (a, b): log(e^a + e^b)
TESSERA_PW(logaddexp2);  // (a, b): log2(2^a + 2^b)
TESSERA_PW(gcd);         // (a, b): ints, not negative
TESSERA_PW(lcm);

// Comparisons: bool results.
TESSERA_PW(eq);
TESSERA_PW(ne);
TESSERA_PW(lt);          // no complex, no wide
TESSERA_PW(le);
TESSERA_PW(gt);
TESSERA_PW(ge);
TESSERA_PW(logical_and);
TESSERA_PW(logical_or);
TESSERA_PW(logical_xor);
TESSERA_PW(logical_not);
TESSERA_PW(isnan);
TESSERA_PW(isinf);
TESSERA_PW(isfinite);
TESSERA_PW(isposinf);
TESSERA_PW(isneginf);
TESSERA_PW(signbit);

// Bits: ints and bool; wide too for and, or, xor; the shifts ints only.
TESSERA_PW(bitwise_and);
TESSERA_PW(bitwise_or);
TESSERA_PW(bitwise_xor);
TESSERA_PW(bitwise_not);
TESSERA_PW(bitwise_left_shift);   // 0 where the count is negative or not less than the width
TESSERA_PW(bitwise_right_shift);  // arithmetic; sign fill there

// One input.
TESSERA_PW(abs);         // complex: real result
TESSERA_PW(neg);
TESSERA_PW(positive);
TESSERA_PW(sign);        // nan gives 0
TESSERA_PW(sgn);         // complex: z / |z|, 0 for 0
TESSERA_PW(square);
TESSERA_PW(reciprocal);
TESSERA_PW(sqrt);
TESSERA_PW(rsqrt);
TESSERA_PW(exp);
TESSERA_PW(exp2);
TESSERA_PW(expm1);
TESSERA_PW(log);
TESSERA_PW(log1p);
TESSERA_PW(log2);
TESSERA_PW(log10);
TESSERA_PW(sin);
TESSERA_PW(cos);
TESSERA_PW(tan);
TESSERA_PW(asin);
TESSERA_PW(acos);
TESSERA_PW(atan);
TESSERA_PW(sinh);
TESSERA_PW(cosh);
TESSERA_PW(tanh);
TESSERA_PW(asinh);
TESSERA_PW(acosh);
TESSERA_PW(atanh);
TESSERA_PW(sigmoid);     // 1 / (1 + e^-x)
TESSERA_PW(erf);
TESSERA_PW(erfc);
TESSERA_PW(erfinv);
TESSERA_PW(logit);       // [eps]: log(z / (1 - z)), z = x clamped to [eps, 1 - eps]; eps nan: not clamped
TESSERA_PW(lgamma);
TESSERA_PW(digamma);     // -inf at 0 (inf at -0), nan at the negative integers
TESSERA_PW(polygamma);   // [n], n >= 1: the n-th derivative of digamma
TESSERA_PW(sinc);        // sin(pi x) / (pi x)
TESSERA_PW(entr);        // -x log x; 0 at 0, -inf below
TESSERA_PW(i0);          // modified Bessel function of the first kind, order 0
TESSERA_PW(ceil);        // integers: a copy, also in the next ones
TESSERA_PW(floor);
TESSERA_PW(round);       // ties to even
TESSERA_PW(round_decimals);  // [decimals]: .f, real only
TESSERA_PW(trunc);
TESSERA_PW(frac);        // x - trunc(x)
TESSERA_PW(conj_physical);
TESSERA_PW(real);        // complex only
TESSERA_PW(imag);        // complex only
TESSERA_PW(angle);       // real input: pi where negative, nan where nan, else 0
TESSERA_PW(nan_to_num);  // [nan, posinf, neginf]: .f, for complex too (each part); integers: a copy

// Choice and interpolation.
TESSERA_PW(clamp);             // (x)[min, max]: min(max(x, min), max), nan stays. Absent bounds: -inf/inf, ints: INT64_MIN/INT64_MAX
TESSERA_PW(clamp_tensor);      // (x, min, max)
TESSERA_PW(clamp_min_tensor);  // (x, min): nan if either is
TESSERA_PW(clamp_max_tensor);  // (x, max)
TESSERA_PW(lerp);              // (start, end, weight)
TESSERA_PW(lerp_scalar);       // (start, end)[weight]
TESSERA_PW(addcmul);           // (self, a, b)[value]: self + value a b
TESSERA_PW(addcdiv);           // (self, a, b)[value]: self + value a / b; no integers
TESSERA_PW(where);             // (condition bool, a, b)
TESSERA_PW(masked_fill);       // (self, mask bool)[value]

// Activations (real; threshold, relu, relu6 and hardtanh ints too).
TESSERA_PW(threshold);    // [threshold, value]: value where x <= threshold
TESSERA_PW(relu);
TESSERA_PW(relu6);
TESSERA_PW(leaky_relu);   // [slope]
TESSERA_PW(elu);          // [alpha, scale, input_scale]: scale (x > 0 ? x : alpha expm1(input_scale x))
TESSERA_PW(celu);         // [alpha]: x > 0 ? x : alpha expm1(x / alpha)
TESSERA_PW(selu);
TESSERA_PW(gelu_erf);     // x Phi(x)
TESSERA_PW(gelu_tanh);    // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
TESSERA_PW(silu);
TESSERA_PW(mish);         // x tanh(log(1 + e^x))
TESSERA_PW(softplus);     // [beta, threshold]: log(1 + e^(beta x)) / beta; x where beta x > threshold
TESSERA_PW(hardtanh);     // [min, max]
TESSERA_PW(hardsigmoid);  // clamp(x + 3, 0, 6) / 6
TESSERA_PW(hardswish);    // x clamp(x + 3, 0, 6) / 6
TESSERA_PW(log_sigmoid);
TESSERA_PW(softshrink);   // [lambda]
TESSERA_PW(hardshrink);   // [lambda]
TESSERA_PW(prelu);        // (x, weight)
TESSERA_PW(softsign);     // x / (1 + |x|)

// Losses, element by element.
TESSERA_PW(mse);          // (a, b): (a - b)^2
TESSERA_PW(l1);           // (a, b): |a - b|; ints and complex (real result) too
TESSERA_PW(smooth_l1);    // (a, b)[beta]
TESSERA_PW(huber);        // (a, b)[delta]
TESSERA_PW(bce);          // (x, target): -(t log x + (1 - t) log(1 - x)), logarithms not below -100
TESSERA_PW(bce_with_logits);  // (x, target): (1 - t) x + log(1 + e^-x), stable for any x
TESSERA_PW(kl_div);            // (x, target): t (log t - x)
TESSERA_PW(kl_div_log_target); // (x, target): e^t (t - x)

// Derivatives. The first input is the gradient of the output.
TESSERA_PW(threshold_backward);    // (grad, self)[threshold]
TESSERA_PW(leaky_relu_backward);   // (grad, self)[slope]
TESSERA_PW(elu_backward);          // (grad, self)[alpha, scale, input_scale]
TESSERA_PW(elu_backward_result);   // (grad, result)[alpha, scale, input_scale]
TESSERA_PW(gelu_backward_erf);     // (grad, self)
TESSERA_PW(gelu_backward_tanh);    // (grad, self)
TESSERA_PW(silu_backward);         // (grad, self)
TESSERA_PW(mish_backward);         // (grad, self)
TESSERA_PW(softplus_backward);     // (grad, self)[beta, threshold]
TESSERA_PW(hardtanh_backward);     // (grad, self)[min, max]
TESSERA_PW(hardsigmoid_backward);  // (grad, self)
TESSERA_PW(hardswish_backward);    // (grad, self)
TESSERA_PW(log_sigmoid_backward);  // (grad, self)
TESSERA_PW(shrink_backward);       // (grad, self)[lambda]: both softshrink and hardshrink
TESSERA_PW(sigmoid_backward);      // (grad, result): complex too, grad conj((1 - y) y)
TESSERA_PW(tanh_backward);         // (grad, result): complex too, grad conj(1 - y^2)
TESSERA_PW(logit_backward);        // (grad, self)[eps]; eps nan: not clamped
TESSERA_PW(mse_backward);          // (grad, input, target): 2 grad (input - target)
TESSERA_PW(smooth_l1_backward);    // (grad, input, target)[beta]
TESSERA_PW(huber_backward);        // (grad, input, target)[delta]
TESSERA_PW(bce_backward);          // (grad, input, target)

#undef TESSERA_PW

}  // namespace tessera::pw

namespace tessera::cpu {

// Throws Error("ZeroDivisionError") if an element of an integer divisor is 0. For div_trunc, div_floor, remainder and fmod, before they run.
void check_integer_divisor(std::span<const int64_t> shape, const Operand& divisor);

}  // namespace tessera::cpu
