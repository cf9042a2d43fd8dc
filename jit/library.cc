// Operators that other programs name and that are made of ours, in TorchScript: aten::NAME.
#include "jit/operator.h"

namespace tessera::jit {

const char kLibrarySource[] = R"(
def lstm_cell(input: Tensor, hx: List[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    return torch._rnn_cell(input, hx, w_ih, w_hh, b_ih, b_hh, 0)
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch._rnn_cell(input, [hx], w_ih, w_hh, b_ih, b_hh, 1)[0]
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch._rnn_cell(input, [hx], w_ih, w_hh, b_ih, b_hh, 2)[0]
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch._rnn_cell(input, [hx], w_ih, w_hh, b_ih, b_hh, 3)[0]
def _resampled(input: Tensor, output_size: Optional[List[int]], scale_factors: Optional[List[float]], mode: int,
        align_corners: bool = False) -> Tensor:
    sizes = [input.size(0), input.size(1)]
    steps: List[float] = []
    if output_size is not None:
        for size in output_size:
            sizes.append(size)
    elif scale_factors is not None:
        for i in range(len(scale_factors)):
            sizes.append(int(float(input.size(i + 2)) * scale_factors[i]))
            steps.append(1.0 / scale_factors[i])
    return torch._resample(input, sizes, steps, mode, align_corners)
def upsample_nearest1d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 0)
def _upsample_nearest_exact1d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 1)
def upsample_nearest2d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 0)
def _upsample_nearest_exact2d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 1)
def upsample_nearest3d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 0)
def _upsample_nearest_exact3d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 1)
def upsample_linear1d(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 2, align_corners)
def upsample_bilinear2d(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 2, align_corners)
def upsample_trilinear3d(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 2, align_corners)
def upsample_bicubic2d(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 3, align_corners)
def _upsample_bilinear2d_aa(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 4, align_corners)
def _upsample_bicubic2d_aa(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 5, align_corners)
)";

}  // namespace tessera::jit
