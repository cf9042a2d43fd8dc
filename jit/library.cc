// Operators that other programs name and that are made of ours, in TorchScript: aten::NAME.
#include "jit/operator.h"

namespace tessera::jit {

const char kLibrarySource[] = R"(
def lstm_cell(input: Tensor, hx: List[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    gates = torch.linear(input, w_ih, b_ih) + torch.linear(hx[0], w_hh, b_hh)
    i, f, g, o = torch.chunk(gates, 4, 1)
    c = torch.sigmoid(f) * hx[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    x_r, x_z, x_n = torch.chunk(torch.linear(input, w_ih, b_ih), 3, 1)
    h_r, h_z, h_n = torch.chunk(torch.linear(hx, w_hh, b_hh), 3, 1)
    z = torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return (hx - n) * z + n
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch.tanh(torch.linear(input, w_ih, b_ih) + torch.linear(hx, w_hh, b_hh))
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch.relu(torch.linear(input, w_ih, b_ih) + torch.linear(hx, w_hh, b_hh))
)";

}  // namespace tessera::jit
