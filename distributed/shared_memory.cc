#include "distributed/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace tessera::distributed {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kMessage = 512;

size_t rounded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

long futex(std::atomic<uint32_t>* word, int action, uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, word, action, value, limit, nullptr, 0);
}

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// The more goes with one wait, the less it matters that others use the cores; all of a group stays below 64 MiB.
size_t slot_size_for(int size) {
  size_t least = std::max<size_t>(4096, kLine * size);  // a line for each rank
  return std::clamp<size_t>((size_t{64} << 20) / (2 * size + 2) / 4096 * 4096, least, std::max<size_t>(1 << 20, least));
}

// Calls f(address, offset, bytes) for what lies in [at, at + size) of buffers that follow each other.
template <class F>
void for_parts(const std::vector<Buffer>& buffers, size_t at, size_t size, F f) {
  size_t begin = 0;
  for (auto& buffer : buffers) {
    size_t from = std::max(at, begin), to = std::min(at + size, begin + buffer.size);
    if (from < to) f(buffer.data + (from - begin), from - at, to - from);
    begin += buffer.size;
  }
}

}  // namespace

const char* name_of(Collective what) {
  constexpr const char* kNames[] = {"all_reduce", "broadcast",      "reduce",     "all_gather", "gather",
                                    "scatter",    "reduce_scatter", "all_to_all", "barrier"};
  return kNames[static_cast<int>(what)];
}

// What a rank says of its call.
struct SharedMemory::Header {
  uint8_t what, kind, fold;
  int32_t root;
  uint64_t bytes;  // what has to be equal everywhere, for those where it has
  uint64_t most;   // the largest piece: what the number of rounds follows from
};

// The memory: failure | waits of each rank | headers and sizes, slots, results of two rounds each.
struct SharedMemory::Layout {
  struct Failure {
    std::atomic<uint32_t> state;  // 0, 1 while somebody writes the text, 2
    std::atomic<uint32_t> sleepers;
    char text[kMessage];
  };
  static size_t waits() { return rounded(sizeof(Failure)); }
  static size_t headers(int size) { return waits() + kLine * size; }
  static size_t header_size(int size) { return rounded(sizeof(Header) + 8 * size); }
  static size_t slots(int size) { return (headers(size) + 2 * size * header_size(size) + 4095) / 4096 * 4096; }
  static size_t total(int size) { return slots(size) + (2 * size + 2) * slot_size_for(size); }
};

Descriptor SharedMemory::create(int size) {
  Descriptor fd(memfd_create("tessera-group", MFD_CLOEXEC));
  if (!fd || ftruncate(fd.get(), Layout::total(size)) != 0) {
    throw Error(Fault::kBackend, std::string("no shared memory for a process group: ") + strerror(errno));
  }
  return fd;
}

Descriptor SharedMemory::open(int pid, int fd) {
  std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  Descriptor opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened) throw Error(Fault::kBackend, "the shared memory " + path + " cannot be opened: " + strerror(errno));
  return opened;
}

SharedMemory::SharedMemory(int rank, std::vector<int> pids, Descriptor memory)
    : rank_(rank), size_(static_cast<int>(pids.size())), pids_(std::move(pids)), processes_(size_) {
  length_ = Layout::total(size_);
  slot_size_ = slot_size_for(size_);
  struct stat about;
  if (fstat(memory.get(), &about) != 0 || static_cast<size_t>(about.st_size) != length_) {
    throw Error(Fault::kBackend, "the shared memory of a process group has another size than expected");
  }
  void* at = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) throw Error(Fault::kBackend, std::string("cannot map shared memory: ") + strerror(errno));
  memory_ = static_cast<char*>(at);
  // Turns of a loop of some nanoseconds: long where everybody has a core to himself.
  spins_ = cores() >= size_ ? 2000 : 200;
  for (int i = 0; i < size_; ++i) {
    if (i != rank_) processes_[i] = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pids_[i], 0)));
  }
}

SharedMemory::~SharedMemory() { munmap(memory_, length_); }

char* SharedMemory::slot(int rank) const {
  return memory_ + Layout::slots(size_) + ((round_ & 1) * size_ + rank) * slot_size_;
}
char* SharedMemory::result() const { return memory_ + Layout::slots(size_) + (2 * size_ + (round_ & 1)) * slot_size_; }

// How much goes in a round: of two members one copies what the other folds meanwhile.
size_t SharedMemory::piece_for(size_t bytes) const {
  size_t piece = std::max<size_t>(bytes / 4, 256 << 10) / kLine * kLine;
  return std::min(slot_size_, piece);
}
SharedMemory::Header& SharedMemory::header(int rank) const {
  return *reinterpret_cast<Header*>(memory_ + Layout::headers(size_) +
                                    ((round_ & 1) * size_ + rank) * Layout::header_size(size_));
}
uint64_t* SharedMemory::sizes(int rank) const { return reinterpret_cast<uint64_t*>(&header(rank) + 1); }
std::atomic<uint32_t>& SharedMemory::arrived(int rank) const {
  return *reinterpret_cast<std::atomic<uint32_t>*>(memory_ + Layout::waits() + kLine * rank);
}

bool SharedMemory::is_gone(int rank) {
  pollfd process{processes_[rank].get(), POLLIN, 0};
  return process.fd >= 0 && poll(&process, 1, 0) > 0;
}

std::string SharedMemory::missing(uint32_t wait) const {
  std::string ranks;
  int n = 0;
  for (int i = 0; i < size_; ++i) {
    if (static_cast<int32_t>(arrived(i).load() - wait) >= 0) continue;
    ranks += (n++ ? ", " : "") + std::to_string(i);
  }
  return (n == 1 ? "rank " : "ranks ") + ranks;
}

// Tells everybody, so that nobody waits for what does not come.
void SharedMemory::fail(Fault fault, const std::string& why) {
  auto& failure = *reinterpret_cast<Layout::Failure*>(memory_);
  uint32_t none = 0;
  if (failure.state.compare_exchange_strong(none, 1)) {
    strncpy(failure.text, why.c_str(), kMessage - 1);
    failure.state.store(2);
    for (int i = 0; i < size_; ++i) futex(&arrived(i), FUTEX_WAKE, INT32_MAX, nullptr);
  }
  throw Error(fault, why);
}

void SharedMemory::abort(const std::string& why) {
  aborted_.store(true);
  try {
    fail(Fault::kBackend, why);
  } catch (const Error&) {  // others read it
  }
}

void SharedMemory::wait_for(const Request& request, int rank, uint32_t wait, Deadline deadline) {
  auto& failure = *reinterpret_cast<Layout::Failure*>(memory_);
  auto& word = arrived(rank);
  auto late = [&] { return static_cast<int32_t>(word.load(std::memory_order_acquire) - wait) < 0; };
  for (int i = 0; i < spins_ && late(); ++i) __builtin_ia32_pause();
  while (late()) {
    if (failure.state.load() == 2) {
      throw Error(Fault::kBackend, std::string("the process group failed: ") + failure.text);
    }
    bool gone = is_gone(rank);
    if (gone && !late()) return;
    std::string me = std::string(name_of(request.what)) + " on rank " + std::to_string(rank_) + " of the group: ";
    if (gone) {
      fail(Fault::kBackend, me + "rank " + std::to_string(rank) + " (process " + std::to_string(pids_[rank]) +
                                ") is gone: it ended or was killed");
    }
    if (Clock::now() >= deadline) {
      char seconds[32];
      snprintf(seconds, sizeof(seconds), "%g", request.timeout);
      fail(Fault::kTimeout, me + missing(wait) + " did not join within the timeout of " + seconds + " s");
    }
    uint32_t seen = word.load();
    failure.sleepers.fetch_add(1);
    timespec limit{0, std::max(1, milliseconds_until(deadline, 50)) * 1000000L};
    if (static_cast<int32_t>(seen - wait) < 0 && failure.state.load() != 2) futex(&word, FUTEX_WAIT, seen, &limit);
    failure.sleepers.fetch_sub(1);
    try {
      check_interrupted();
    } catch (const Error&) {
      fail(Fault::kInterrupted, "rank " + std::to_string(rank_) + " was interrupted in " + name_of(request.what));
    }
  }
}

void SharedMemory::wait_for_all(const Request& request) {
  auto& failure = *reinterpret_cast<Layout::Failure*>(memory_);
  uint32_t wait = ++waits_;
  arrived(rank_).store(wait);  // sequentially consistent: before the look at the sleepers
  if (failure.sleepers.load() != 0) futex(&arrived(rank_), FUTEX_WAKE, INT32_MAX, nullptr);
  for (int i = 1; i < size_; ++i) wait_for(request, (rank_ + i) % size_, wait, deadline_);
}

void SharedMemory::begin(const Request& request) {
  auto& mine = header(rank_);
  mine.what = static_cast<uint8_t>(request.what);
  mine.kind = static_cast<uint8_t>(request.kind);
  mine.fold = static_cast<uint8_t>(request.fold);
  mine.root = request.root;
  bool same = request.what == Collective::kAllReduce || request.what == Collective::kBroadcast ||
              request.what == Collective::kReduce;
  mine.bytes = mine.most = 0;
  for (auto& buffer : request.out) mine.bytes += same ? buffer.size : 0;
  auto each = sizes(rank_);
  // The sizes that others look at: of what each rank gets, or of what this rank gives to everyone.
  auto& pieces = request.in.empty() ? request.out : request.in;
  for (int i = 0; !same && i < size_; ++i) each[i] = pieces.empty() ? 0 : pieces[pieces.size() == 1 ? 0 : i].size;
  for (auto* list : {&request.in, &request.out}) {
    for (auto& buffer : *list) mine.most = std::max<uint64_t>(mine.most, buffer.size);
  }
}

// After the first wait of a call: whether all made the same call. Returns the largest piece of anyone.
size_t SharedMemory::agree(const Request& request) {
  auto& mine = header(rank_);
  uint64_t most = 0;
  for (int i = 0; i < size_; ++i) {
    auto& other = header(i);
    most = std::max(most, other.most);
    if (other.what == mine.what && other.fold == mine.fold && other.root == mine.root && other.bytes == mine.bytes &&
        other.kind == mine.kind) {
      continue;
    }
    auto shown = [](const Header& h) {
      return std::string(name_of(static_cast<Collective>(h.what))) + "(" + std::to_string(h.bytes) +
             " bytes, element type " + std::to_string(h.kind) + ", reduction " + std::to_string(h.fold) + ", root " +
             std::to_string(h.root) + ")";
    };
    fail(Fault::kBackend, "Detected mismatch between collectives: rank " + std::to_string(rank_) + " called " +
                              shown(mine) + ", but rank " + std::to_string(i) + " called " + shown(other));
  }
  return most;
}

void SharedMemory::run(const Request& request) {
  if (aborted_.load()) throw Error(Fault::kBackend, "this process group was aborted");
  auto& failure = *reinterpret_cast<Layout::Failure*>(memory_);
  if (failure.state.load() == 2) throw Error(Fault::kBackend, std::string("the process group failed: ") + failure.text);
  deadline_ = deadline_after(request.timeout);
  ++round_;
  begin(request);
  switch (request.what) {
    case Collective::kAllReduce:
      return all_reduce(request);
    case Collective::kReduce:
      return reduce(request);
    case Collective::kBroadcast:
      return broadcast(request);
    case Collective::kAllGather:
    case Collective::kGather:
      return gather(request);
    case Collective::kScatter:
      return scatter(request);
    case Collective::kReduceScatter:
      return reduce_scatter(request);
    case Collective::kAllToAll:
      return all_to_all(request);
    case Collective::kBarrier:
      wait_for_all(request);
      agree(request);
      return;
  }
}

// Of two members, or of little, each folds all of it. Else each folds his part for everyone, and takes the results of a
// round while the next one is folded: one wait a round in either case.
void SharedMemory::all_reduce(const Request& request) {
  size_t item = size_of(request.kind), total = 0;
  for (auto& buffer : request.out) total += buffer.size;
  bool whole = size_ == 2 || total <= 8192;
  size_t piece = whole ? piece_for(total) : slot_size_;
  std::vector<const void*> sources(size_);
  auto fold = [&](char* to, size_t from, size_t bytes) {
    for (int i = 0; i < size_; ++i) sources[i] = slot(i) + from;
    fold_all(request.kind, request.fold, to, sources.data(), size_, bytes / item);
  };
  auto take = [&](size_t at, const char* results) {
    for_parts(request.out, at, std::min(piece, total - at),
              [&](char* to, size_t from, size_t bytes) { memcpy(to, results + from, bytes); });
  };
  const char* results = nullptr;
  size_t at = 0;
  for (; at == 0 || at < total; at += piece) {
    if (at > 0) ++round_;
    size_t here = std::min(piece, total - at);
    for_parts(request.out, at, here, [&](char* from, size_t to, size_t bytes) {
      copy_scaled(request.kind, slot(rank_) + to, from, bytes, request.scale);
    });
    wait_for_all(request);
    if (at == 0) agree(request);
    if (whole) {
      for_parts(request.out, at, here, fold);
      continue;
    }
    size_t part = rounded((here / item + size_ - 1) / size_ * item), from = std::min(here, part * rank_);
    fold(result() + from, from, std::min(part, here - from));
    if (results != nullptr) take(at - piece, results);
    results = result();
  }
  if (results == nullptr) return;
  wait_for_all(request);
  take(at - piece, results);
}

void SharedMemory::reduce(const Request& request) {
  auto buffer = request.out[0];
  size_t piece = piece_for(buffer.size);
  std::vector<const void*> sources(size_);
  for (size_t at = 0; at == 0 || at < buffer.size; at += piece) {
    if (at > 0) ++round_;
    size_t here = std::min(piece, buffer.size - at);
    memcpy(slot(rank_), buffer.data + at, here);
    wait_for_all(request);
    if (at == 0) agree(request);
    if (rank_ != request.root) continue;
    for (int i = 0; i < size_; ++i) sources[i] = slot(i);
    fold_all(request.kind, request.fold, buffer.data + at, sources.data(), size_, here / size_of(request.kind));
  }
}

void SharedMemory::broadcast(const Request& request) {
  auto buffer = request.out[0];
  size_t piece = piece_for(buffer.size);
  for (size_t at = 0; at == 0 || at < buffer.size; at += piece) {
    if (at > 0) ++round_;
    size_t here = std::min(piece, buffer.size - at);
    if (rank_ == request.root) memcpy(slot(rank_), buffer.data + at, here);
    wait_for_all(request);
    if (at == 0) agree(request);
    if (rank_ != request.root) memcpy(buffer.data + at, slot(request.root), here);
  }
}

void SharedMemory::gather(const Request& request) {
  bool takes = request.what == Collective::kAllGather || rank_ == request.root;
  auto mine = request.in[0];
  size_t most = 0;
  for (size_t at = 0; at == 0 || at < most; at += slot_size_) {
    if (at > 0) ++round_;
    if (at < mine.size) memcpy(slot(rank_), mine.data + at, std::min(slot_size_, mine.size - at));
    wait_for_all(request);
    if (at == 0) {
      most = agree(request);
      for (int i = 0; takes && i < size_; ++i) {
        if (sizes(i)[0] == request.out[i].size) continue;
        fail(Fault::kBackend, std::string(name_of(request.what)) + ": rank " + std::to_string(i) + " gave " +
                                  std::to_string(sizes(i)[0]) + " bytes, but rank " + std::to_string(rank_) +
                                  " expected " + std::to_string(request.out[i].size));
      }
    }
    for (int i = 0; takes && i < size_; ++i) {
      auto to = request.out[i];
      if (at < to.size) memcpy(to.data + at, slot(i), std::min(slot_size_, to.size - at));
    }
  }
}

void SharedMemory::scatter(const Request& request) {
  auto to = request.out[0];
  size_t most = 0;
  for (size_t at = 0; at == 0 || at < most; at += slot_size_) {
    if (at > 0) ++round_;
    for (int i = 0; rank_ == request.root && i < size_; ++i) {  // all slots are the root's
      auto from = request.in[i];
      if (at < from.size) memcpy(slot(i), from.data + at, std::min(slot_size_, from.size - at));
    }
    wait_for_all(request);
    if (at == 0) {
      most = agree(request);
      auto given = sizes(request.root)[rank_];
      if (given != to.size) {
        fail(Fault::kBackend, "scatter: rank " + std::to_string(request.root) + " gave " + std::to_string(given) +
                                  " bytes to rank " + std::to_string(rank_) + ", which expected " +
                                  std::to_string(to.size));
      }
    }
    if (at < to.size) memcpy(to.data + at, slot(rank_), std::min(slot_size_, to.size - at));
  }
}

void SharedMemory::reduce_scatter(const Request& request) {
  size_t piece = slot_size_ / size_ / kLine * kLine, most = 0;
  auto to = request.out[0];
  std::vector<const void*> sources(size_);
  for (size_t at = 0; at == 0 || at < most; at += piece) {
    if (at > 0) ++round_;
    for (int i = 0; i < size_; ++i) {
      auto from = request.in[i];
      if (at < from.size) memcpy(slot(rank_) + i * piece, from.data + at, std::min(piece, from.size - at));
    }
    wait_for_all(request);
    if (at == 0) {
      most = agree(request);
      for (int i = 0; i < size_; ++i) {
        if (sizes(i)[rank_] == to.size) continue;
        fail(Fault::kBackend, "reduce_scatter: rank " + std::to_string(i) + " gave " + std::to_string(sizes(i)[rank_]) +
                                  " bytes for rank " + std::to_string(rank_) + ", which expected " +
                                  std::to_string(to.size));
      }
    }
    if (at >= to.size) continue;
    for (int i = 0; i < size_; ++i) sources[i] = slot(i) + rank_ * piece;
    fold_all(request.kind, request.fold, to.data + at, sources.data(), size_,
             std::min(piece, to.size - at) / size_of(request.kind));
  }
}

void SharedMemory::all_to_all(const Request& request) {
  size_t piece = slot_size_ / size_ / kLine * kLine, most = 0;
  for (size_t at = 0; at == 0 || at < most; at += piece) {
    if (at > 0) ++round_;
    for (int i = 0; i < size_; ++i) {
      auto from = request.in[i];
      if (at < from.size) memcpy(slot(rank_) + i * piece, from.data + at, std::min(piece, from.size - at));
    }
    wait_for_all(request);
    if (at == 0) {
      most = agree(request);
      for (int i = 0; i < size_; ++i) {
        if (sizes(i)[rank_] == request.out[i].size) continue;
        fail(Fault::kBackend, "all_to_all: rank " + std::to_string(i) + " gave " + std::to_string(sizes(i)[rank_]) +
                                  " bytes to rank " + std::to_string(rank_) + ", which expected " +
                                  std::to_string(request.out[i].size));
      }
    }
    for (int i = 0; i < size_; ++i) {
      auto to = request.out[i];
      if (at < to.size) memcpy(to.data + at, slot(i) + rank_ * piece, std::min(piece, to.size - at));
    }
  }
}

}  // namespace tessera::distributed
