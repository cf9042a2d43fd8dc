// From logs to records: times on one clock, parents, what belongs to what.
#include <algorithm>
#include <cstdio>
#include <map>
#include <unordered_map>

#include "profiler/session.h"

namespace tessera::profiler {
namespace {

using Places = std::unordered_map<const Event*, int32_t>;

Record record_of(const Event& e, const Scale& scale, const Moment& stop) {
  Record r;
  r.kind = e.kind;
  if (e.kind == Kind::kOperator) {
    const auto* op = static_cast<const OpHeader*>(e.subject);
    r.name = op->name;
    r.overload = op->overload;
  } else if (e.kind == Kind::kFrame) {
    r.subject = e.subject;
  } else {
    r.name = {static_cast<const char*>(e.subject), e.length};
  }
  const uint64_t end = e.end.load(std::memory_order_acquire);
  r.finished = end != 0;
  r.start_ns = scale.wall_ns(e.start);
  r.end_ns = std::max(r.start_ns, scale.wall_ns(end ? end : stop.ticks));
  r.sequence = e.sequence == kNoSequence ? -1 : static_cast<int64_t>(e.sequence);
  r.inputs = read_inputs(e.input);
  return r;
}

// The operator that made each node: the last one that began while the node's number was the coming one.
void link_backward(Recording& r) {
  std::map<std::pair<int32_t, int64_t>, int32_t> on_thread;
  std::map<int64_t, int32_t> anywhere;
  for (size_t i = 0; i < r.events.size(); ++i) {
    Record& e = r.events[i];
    if (e.sequence < 0) continue;
    if (e.kind == Kind::kOperator) {
      on_thread[{e.thread, e.sequence}] = static_cast<int32_t>(i);
      anywhere[e.sequence] = static_cast<int32_t>(i);
    } else if (e.kind == Kind::kNode || e.kind == Kind::kEvaluate) {
      if (const auto own = on_thread.find({e.thread, e.sequence}); own != on_thread.end())
        e.forward = own->second;
      else if (const auto other = anywhere.find(e.sequence); other != anywhere.end())
        e.forward = other->second;
    }
  }
}

void add_memory(Recording& r, int64_t at_start) {
  std::stable_sort(r.memory.begin(), r.memory.end(),
                   [](const MemoryRecord& a, const MemoryRecord& b) { return a.time_ns < b.time_ns; });
  for (MemoryRecord& m : r.memory) {
    m.total = at_start += m.bytes;
    if (m.event >= 0) r.events[static_cast<size_t>(m.event)].self_memory += m.bytes;
  }
  for (Record& e : r.events) e.memory = e.self_memory;
  for (size_t i = r.events.size(); i-- > 0;)
    if (r.events[i].parent >= 0) r.events[static_cast<size_t>(r.events[i].parent)].memory += r.events[i].memory;
}

// The innermost event of a thread at some moment, by the events' times.
class Inside {
 public:
  explicit Inside(const Recording& r) : r_(r), of_thread_(r.threads.size()) {
    for (size_t i = 0; i < r.events.size(); ++i)
      of_thread_[static_cast<size_t>(r.events[i].thread)].push_back(static_cast<int32_t>(i));
  }
  int32_t at(int32_t thread, int64_t time) const {
    if (thread < 0) return -1;
    const auto& list = of_thread_[static_cast<size_t>(thread)];
    const auto after = std::upper_bound(list.begin(), list.end(), time, [&](int64_t t, int32_t i) {
      return t < r_.events[static_cast<size_t>(i)].start_ns;
    });
    int32_t e = after == list.begin() ? -1 : *(after - 1);
    while (e >= 0 && r_.events[static_cast<size_t>(e)].end_ns < time) e = r_.events[static_cast<size_t>(e)].parent;
    return e;
  }

 private:
  const Recording& r_;
  std::vector<std::vector<int32_t>> of_thread_;
};

// Who asked for a device's work: the operator that had said so, else what its thread was doing at the call.
void add_device(Recording& r, const std::vector<DeviceActivity>& all, const Places& places) {
  const Inside inside(r);
  std::unordered_map<int64_t, int32_t> threads;
  for (size_t t = 0; t < r.threads.size(); ++t) threads.emplace(r.threads[t].system_id, static_cast<int32_t>(t));
  std::unordered_map<uint32_t, int32_t> caller;  // by correlation
  for (const DeviceActivity& a : all) {
    DeviceRecord d{a};
    if (const auto owner = places.find(reinterpret_cast<const Event*>(a.owner)); owner != places.end())
      d.event = owner->second;
    if (a.kind == DeviceActivity::Kind::kCall) {
      if (const auto thread = threads.find(a.place); thread != threads.end()) d.thread = thread->second;
      if (d.event < 0) d.event = inside.at(d.thread, a.start_ns);
      caller.emplace(a.correlation, d.event);
    }
    r.device.push_back(d);
    r.end_ns = std::max(r.end_ns, a.end_ns);
  }
  for (DeviceRecord& d : r.device)
    if (const auto call = caller.find(d.correlation); d.event < 0 && call != caller.end()) d.event = call->second;
  std::stable_sort(r.device.begin(), r.device.end(),
                   [](const DeviceRecord& a, const DeviceRecord& b) { return a.start_ns < b.start_ns; });
}

std::string time_text(int64_t ns) {
  char text[32];
  const double v = static_cast<double>(ns);
  if (ns >= 1'000'000'000)
    std::snprintf(text, sizeof text, "%.3fs", v / 1e9);
  else if (ns >= 1'000'000)
    std::snprintf(text, sizeof text, "%.3fms", v / 1e6);
  else
    std::snprintf(text, sizeof text, "%.3fus", v / 1e3);
  return text;
}

}  // namespace

Recording Capture::resolve() const {
  const Scale scale(session_->start);
  Recording r;
  r.texts = session_;
  r.start_ns = session_->start.wall_ns;
  r.end_ns = scale.wall_ns(session_->stop.ticks);
  struct Found {
    const Event* event;
    int32_t thread;
  };
  std::vector<Found> found;
  for (const auto& log : session_->logs) {
    const auto thread = static_cast<int32_t>(r.threads.size());
    r.threads.push_back({log->system_id(), log->thread_name()});
    log->events().each([&](const Event& e) { found.push_back({&e, thread}); });
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.event->start < b.event->start;  // a parent begins first, and a log is in order
  });
  Places places(found.size());
  r.events.reserve(found.size());
  for (const Found& f : found) {
    places.emplace(f.event, static_cast<int32_t>(r.events.size()));
    r.events.push_back(record_of(*f.event, scale, session_->stop));
    Record& e = r.events.back();
    e.thread = f.thread;
    const auto parent = places.find(f.event->parent.load(std::memory_order_relaxed));
    e.parent = parent == places.end() ? -1 : parent->second;
  }
  for (size_t t = 0; t < session_->logs.size(); ++t)
    session_->logs[t]->memory().each([&](const MemoryChange& m) {
      const auto owner = places.find(m.owner);
      r.memory.push_back({scale.wall_ns(m.time), m.bytes, 0, m.address, owner == places.end() ? -1 : owner->second,
                          static_cast<int32_t>(t)});
    });
  link_backward(r);
  add_memory(r, session_->memory_at_start);
  add_device(r, session_->device, places);
  return r;
}

std::vector<Average> Recording::averages() const {
  std::vector<int64_t> inside(events.size(), 0);
  for (const Record& e : events)
    if (e.parent >= 0) inside[static_cast<size_t>(e.parent)] += e.duration_ns();
  std::vector<int64_t> asked(events.size(), 0), asked_inside(events.size(), 0);  // of the device
  for (const DeviceRecord& d : device)
    if (d.event >= 0 && d.kind != DeviceActivity::Kind::kCall) asked[static_cast<size_t>(d.event)] += d.duration_ns();
  for (size_t i = events.size(); i-- > 0;)
    if (events[i].parent >= 0) asked_inside[static_cast<size_t>(events[i].parent)] += asked[i] + asked_inside[i];
  std::map<std::string_view, Average> by_name;
  for (size_t i = 0; i < events.size(); ++i) {
    const Record& e = events[i];
    if (e.kind == Kind::kFrame) continue;
    Average& a = by_name[e.name];
    a.name = e.name;
    ++a.count;
    a.self_ns += std::max<int64_t>(0, e.duration_ns() - inside[i]);
    a.self_memory += e.self_memory;
    a.self_device_ns += asked[i];
    bool nested = false;
    for (int32_t p = e.parent; p >= 0 && !nested; p = events[static_cast<size_t>(p)].parent)
      nested = events[static_cast<size_t>(p)].name == e.name;
    if (nested) continue;
    a.total_ns += e.duration_ns();
    a.memory += e.memory;
    a.device_ns += asked[i] + asked_inside[i];
  }
  std::vector<Average> all;
  for (auto& [name, a] : by_name) all.push_back(a);
  std::stable_sort(all.begin(), all.end(), [](const Average& a, const Average& b) { return a.self_ns > b.self_ns; });
  return all;
}

std::string Recording::table(size_t rows) const {
  const std::vector<Average> all = averages();
  size_t width = 4;
  int64_t self = 0, self_device = 0;
  for (const Average& a : all) {
    width = std::max(width, a.name.size());
    self += a.self_ns;
    self_device += a.self_device_ns;
  }
  std::string text;
  char line[512];
  const auto add = [&](std::string_view name, const std::vector<std::string>& columns) {
    std::snprintf(line, sizeof line, "%-*.*s", static_cast<int>(width), static_cast<int>(name.size()), name.data());
    text += line;
    for (const std::string& column : columns) {
      std::snprintf(line, sizeof line, "%12s", column.c_str());
      text += line;
    }
    text += '\n';
  };
  width = std::min<size_t>(width, 80);
  std::vector<std::string> titles = {"Self CPU", "CPU total", "CPU avg", "Calls"};
  if (!device.empty()) titles.insert(titles.end(), {"Self CUDA", "CUDA total"});
  add("Name", titles);
  for (size_t i = 0; i < all.size() && i < rows; ++i) {
    const Average& a = all[i];
    std::vector<std::string> columns = {time_text(a.self_ns), time_text(a.total_ns), time_text(a.total_ns / a.count),
                                        std::to_string(a.count)};
    if (!device.empty()) columns.insert(columns.end(), {time_text(a.self_device_ns), time_text(a.device_ns)});
    add(a.name.substr(0, width), columns);
  }
  text += "Self CPU time total: " + time_text(self) + "\n";
  return device.empty() ? text : text + "Self CUDA time total: " + time_text(self_device) + "\n";
}

}  // namespace tessera::profiler
