"""Functions of nn.init as programs: the texts that _definitions gives to the compiler."""

FUNCTIONS = """
def constant_(tensor: Tensor, val: float) -> Tensor:
    with torch.no_grad():
        return tensor.fill_(val)
def ones_(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        return tensor.fill_(1.0)
def zeros_(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        return tensor.fill_(0.0)
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)
def _fans(tensor: Tensor) -> int:
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    return (tensor.size(0) + tensor.size(1)) * (tensor[0, 0].numel())
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    bound = gain * math.sqrt(6.0 / _fans(tensor))
    with torch.no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    with torch.no_grad():
        return tensor.normal_(0.0, gain * math.sqrt(2.0 / _fans(tensor)), generator=generator)
"""
