#include "tensor/ops/options.h"

#include "tensor/core/device_hooks.h"
#include "tensor/core/dispatch_key.h"
#include "tensor/ops/api.h"

namespace tessera::options {

void check_layout(const char* op, std::optional<Layout> layout) {
  TESSERA_CHECK_NOT_IMPLEMENTED(!layout || *layout == Layout::kStrided, op, "(): layout=torch.", layout_name(*layout),
                                " is not supported: there are no tensors of that layout. Use layout=torch.strided.");
}

void check_out(const Tensor& out, std::optional<DType> dtype, std::optional<Device> device,
               std::optional<MemoryFormat> format) {
  TESSERA_CHECK(!dtype || *dtype == out.dtype(), "dtype ", name_of(*dtype), " does not match dtype of out parameter (",
                name_of(out.dtype()), ")");
  TESSERA_CHECK(!device || device->type == out.device().type, "device ", device->str(),
                " does not match device of out parameter (", out.device().str(), ")");
  TESSERA_CHECK(!format, "'memory_format' argument is incompatible with 'out' tensor argument");
}

Tensor pinned(const Tensor& t) {
  TESSERA_CHECK(t.is_cpu() && t.layout() == Layout::kStrided, "cannot pin '", t.is_cuda() ? "torch.cuda." : "torch.",
                type_name_of(t.dtype()), "Tensor' only dense CPU tensors can be pinned");
  if (t.storage() && is_pinned(*t.storage())) return t;
  const Tensor shape = empty_tensor(t.sizes(), preserved_strides(t), t.dtype(), Device(DeviceType::kMeta));
  const Storage storage = allocate_pinned(shape.storage()->nbytes());
  const Tensor r = tensor_from_storage(storage, t.sizes(), shape.strides(), 0, t.dtype());
  copy_(r, t);
  return r;
}

void check_gradient_layout(const char* op, const char* argument, bool sparse, const Tensor& of) {
  TESSERA_CHECK_NOT_IMPLEMENTED(
      !sparse || !grad_mode_enabled() || !of.requires_grad(), op, "(): ", argument,
      "=True is not supported for a tensor that requires grad: there are no sparse gradients. Use ", argument,
      "=False.");
}

}  // namespace tessera::options
