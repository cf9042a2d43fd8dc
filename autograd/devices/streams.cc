#include "autograd/devices/streams.h"

#include <algorithm>

#include "tensor/core/device_hooks.h"

namespace tessera::autograd {
namespace {

const DeviceHooks* stream_hooks(Device device) {
  if (device.is_cpu() || device.is_meta()) return nullptr;
  const DeviceHooks* hooks = loaded_device_hooks(device.type);
  return hooks && hooks->current_stream ? hooks : nullptr;
}

void wait(const NodeStream& waits, const NodeStream& marked) {
  stream_hooks(waits.device)->wait_stream(waits.device, waits.handle, marked.device, marked.handle);
}

void record_use(const Tensor& t, const NodeStream& s) {
  const DeviceHooks* hooks = stream_hooks(s.device);
  if (hooks->record_stream && t.layout() == Layout::kStrided && t.storage() && t.storage()->data())
    hooks->record_stream(t.storage()->data(), s.device, s.handle);
}

}  // namespace

NodeStream current_stream_of(Device device) {
  const DeviceHooks* hooks = stream_hooks(device);
  return hooks ? NodeStream{device, hooks->current_stream(device)} : NodeStream{};
}

void OnStream::enter(const NodeStream& s) {
  before_ = current_stream_of(s.device);
  stream_hooks(s.device)->set_stream(s.device, s.handle);
}

void OnStream::leave() { stream_hooks(before_.device)->set_stream(before_.device, before_.handle); }

NodeStream PassStreams::wanted(const Node& to, Device device) {
  if (to.stream().known() && to.stream().device == device) return to.stream();
  return current_stream_of(device);
}

void PassStreams::hand_over(const Tensor& grad, const Node* from, const NodeStream& to) {
  if (!to.known()) return;
  if (std::ranges::find(used_, to) == used_.end()) used_.push_back(to);
  const NodeStream made = from ? wanted(*from, to.device) : current_stream_of(to.device);
  if (made == to) return;
  wait(to, made);
  record_use(grad, to);
}

void PassStreams::give_to_caller(const Tensor& t, const NodeStream& made) {
  if (!made.known() || !t.defined() || t.device() != made.device) return;
  const NodeStream callers = current_stream_of(made.device);
  if (callers != made) record_use(t, callers);
}

void PassStreams::join() {
  for (const NodeStream& s : used_) {
    const NodeStream callers = current_stream_of(s.device);
    if (callers != s) wait(callers, s);
  }
  used_.clear();
}

}  // namespace tessera::autograd
