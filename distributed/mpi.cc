#include "distributed/mpi.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace tessera::distributed {

// Handles are pointers in Open MPI and numbers in MPICH: both are passed in a register, and written to memory that was
// zero. MPI has no fixed values, so those that are used here stand in a table for each interface.
struct MpiLibrary {
  using Handle = intptr_t;
  struct Status {
    int words[16];
  };

  std::mutex mutex;  // around every call: a library need not allow more
  bool started_here = false, ended = false;
  Handle world = 0, byte = 0, errors_return = 0;
  int any_source = 0, source_word = 0, tag_limit_key = 0, tag_limit = 32767;
  // Transfers that were given up, with their memory, which MPI may still use.
  std::vector<std::shared_ptr<Transfer>> given_up;

  int (*init)(int*, char***, int, int*);
  int (*initialized)(int*);
  int (*finalized)(int*);
  int (*finalize)();
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*comm_group)(Handle, Handle*);
  int (*group_incl)(Handle, int, const int*, Handle*);
  int (*group_free)(Handle*);
  int (*comm_create_group)(Handle, Handle, int, Handle*);
  int (*comm_free)(Handle*);
  int (*comm_set_errhandler)(Handle, Handle);
  int (*comm_get_attr)(Handle, int, void*, int*);
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*iprobe)(int, int, Handle, int*, Status*);
  int (*test)(Handle*, int*, Status*);
  int (*get_count)(const Status*, Handle, int*);
  int (*error_string)(int, char*, int*);

  bool load();
  std::string message(int code);
  void check(int code) {
    if (code != 0) throw Error(Fault::kBackend, message(code));
  }

 private:
  bool load_names(void* library);
};

namespace {

constexpr size_t kPiece = size_t{1} << 30;  // MPI counts with ints

MpiLibrary* found() {
  static MpiLibrary* library = [] {
    auto made = new MpiLibrary;  // never deleted: it is used until the process ends
    return made->load() ? made : nullptr;
  }();
  return library;
}

MpiLibrary& library() {
  if (auto it = found()) return *it;
  throw Error(Fault::kBackend,
              "the backend 'mpi' needs an MPI library (libmpi.so.40 of Open MPI, libmpi.so.12 of "
              "MPICH, or the one that TESSERA_MPI_LIBRARY names), and none could be loaded");
}

void end() {
  auto& mpi = *found();
  std::lock_guard lock(mpi.mutex);
  int over = 0;
  mpi.finalized(&over);
  if (!over && !mpi.ended) mpi.finalize();
  mpi.ended = true;
}

}  // namespace

bool MpiLibrary::load_names(void* library) {
  struct {
    const char* name;
    void* to;
  } names[] = {{"MPI_Init_thread", &init},
               {"MPI_Initialized", &initialized},
               {"MPI_Finalized", &finalized},
               {"MPI_Finalize", &finalize},
               {"MPI_Comm_rank", &comm_rank},
               {"MPI_Comm_size", &comm_size},
               {"MPI_Comm_group", &comm_group},
               {"MPI_Group_incl", &group_incl},
               {"MPI_Group_free", &group_free},
               {"MPI_Comm_create_group", &comm_create_group},
               {"MPI_Comm_free", &comm_free},
               {"MPI_Comm_set_errhandler", &comm_set_errhandler},
               {"MPI_Comm_get_attr", &comm_get_attr},
               {"MPI_Isend", &isend},
               {"MPI_Irecv", &irecv},
               {"MPI_Iprobe", &iprobe},
               {"MPI_Test", &test},
               {"MPI_Get_count", &get_count},
               {"MPI_Error_string", &error_string}};
  for (auto& [name, to] : names) {
    void* address = dlsym(library, name);
    if (!address) return false;
    memcpy(to, &address, sizeof(address));
  }
  if (void* at = dlsym(library, "ompi_mpi_comm_world")) {
    world = reinterpret_cast<Handle>(at);
    byte = reinterpret_cast<Handle>(dlsym(library, "ompi_mpi_byte"));
    errors_return = reinterpret_cast<Handle>(dlsym(library, "ompi_mpi_errors_return"));
    any_source = -1;
  } else {
    world = 0x44000000;
    byte = 0x4c00010d;
    errors_return = 0x54000001;
    any_source = -2;
    source_word = 2;
    tag_limit_key = 0x64400001;
  }
  return true;
}

// The one that is asked for; one that this process has loaded (by mpi4py); that of the mpirun that started it; any.
bool MpiLibrary::load() {
  constexpr const char* kOpenMpi = "libmpi.so.40";
  constexpr const char* kMpich[] = {"libmpi.so.12", "libmpich.so.12"};
  struct Choice {
    const char* name;
    int flags;
  };
  std::vector<Choice> choices;
  if (const char* given = getenv("TESSERA_MPI_LIBRARY"); given && *given) choices.push_back({given, 0});
  for (const char* name : {kOpenMpi, kMpich[0], kMpich[1]}) choices.push_back({name, RTLD_NOLOAD});
  if (!getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK")) choices.push_back({kOpenMpi, 0});
  for (const char* name : {kMpich[0], kMpich[1], kOpenMpi, "libmpi.so"}) choices.push_back({name, 0});
  for (auto [name, flags] : choices) {
    // Open MPI's plugins look for its names among those of all libraries.
    void* opened = dlopen(name, RTLD_NOW | RTLD_GLOBAL | flags);
    if (opened && load_names(opened)) return true;
  }
  return false;
}

std::string MpiLibrary::message(int code) {
  char text[8192] = "";
  int length = 0;
  error_string(code, text, &length);
  return std::string("MPI: ") + text;
}

bool mpi_is_there() { return found() != nullptr; }

void mpi_start(int& rank, int& size) {
  auto& mpi = library();
  std::lock_guard lock(mpi.mutex);
  int already = 0, over = 0, level = 0;
  mpi.initialized(&already);
  mpi.finalized(&over);
  if (over) throw Error(Fault::kBackend, "MPI was ended in this process, and cannot be started a second time");
  if (!already) {
    constexpr int kSerialized = 2;
    mpi.check(mpi.init(nullptr, nullptr, kSerialized, &level));
    if (level < kSerialized) throw Error(Fault::kBackend, "this MPI cannot be called from several threads");
    std::atexit(end);
  }
  mpi.check(mpi.comm_set_errhandler(mpi.world, mpi.errors_return));
  int* limit = nullptr;
  int known = 0;
  if (mpi.comm_get_attr(mpi.world, mpi.tag_limit_key, &limit, &known) == 0 && known) mpi.tag_limit = *limit;
  mpi.check(mpi.comm_rank(mpi.world, &rank));
  mpi.check(mpi.comm_size(mpi.world, &size));
}

struct MpiMessages::Moving : Transfer {
  std::unique_ptr<char[]> memory;  // where the message is while it is MPI's
  std::vector<intptr_t> requests;  // of its pieces, those that are over are left out
  intptr_t communicator = 0;
  int label = 0;  // its tag for MPI
  bool started = false;
};

MpiMessages::MpiMessages(const std::vector<int>& ranks) : mpi_(library()), size_(static_cast<int>(ranks.size())) {
  std::lock_guard lock(mpi_.mutex);
  intptr_t world = 0, members = 0;
  mpi_.check(mpi_.comm_group(mpi_.world, &world));
  mpi_.check(mpi_.group_incl(world, size_, ranks.data(), &members));
  for (intptr_t* made : {&collectives_, &users_}) {
    mpi_.check(mpi_.comm_create_group(mpi_.world, members, ranks[0], made));
    mpi_.check(mpi_.comm_set_errhandler(*made, mpi_.errors_return));
  }
  mpi_.group_free(&members);
  mpi_.group_free(&world);
  mpi_.check(mpi_.comm_rank(collectives_, &rank_));
}

MpiMessages::~MpiMessages() {
  {
    std::lock_guard lock(mpi_.mutex);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  std::lock_guard lock(mpi_.mutex);
  for (auto& moving : moving_) mpi_.given_up.push_back(moving);
  // A communicator with messages on their way stays.
  if (!mpi_.ended && moving_.empty() && broken_.empty()) {
    mpi_.comm_free(&collectives_);
    mpi_.comm_free(&users_);
  }
}

std::shared_ptr<MpiMessages::Moving> MpiMessages::make(bool sends, int peer, uint64_t tag, Buffer buffer) {
  if (!broken_.empty()) throw Error(Fault::kBackend, broken_);
  if (mpi_.ended) throw Error(Fault::kBackend, "MPI was ended in this process");
  auto moving = std::make_shared<Moving>();
  moving->sends = sends;
  moving->peer = peer;
  moving->tag = tag;
  moving->buffer = buffer;
  moving->memory.reset(new char[std::max<size_t>(buffer.size, 1)]);
  // Within a communicator messages keep their order, so a few numbers tell collectives apart. 32767 is the least limit.
  if (tag & (kCollectiveTag | kRollTag)) {
    moving->communicator = collectives_;
    moving->label = static_cast<int>(tag & kCollectiveTag ? tag & 0x3fff : 0x4000 | (tag & 0x1fff));
  } else {
    if (tag > static_cast<uint64_t>(mpi_.tag_limit)) {
      throw Error(Fault::kBackend,
                  "MPI takes tags up to " + std::to_string(mpi_.tag_limit) + ", but got " + std::to_string(tag));
    }
    moving->communicator = users_;
    moving->label = static_cast<int>(tag);
  }
  return moving;
}

void MpiMessages::start(Moving& moving) {
  moving.started = true;
  size_t at = 0;
  do {
    int count = static_cast<int>(std::min(moving.buffer.size - at, kPiece));
    char* data = moving.memory.get() + at;
    intptr_t request = 0;
    mpi_.check(moving.sends
                   ? mpi_.isend(data, count, mpi_.byte, moving.peer, moving.label, moving.communicator, &request)
                   : mpi_.irecv(data, count, mpi_.byte, moving.peer, moving.label, moving.communicator, &request));
    moving.requests.push_back(request);
    at += count;
  } while (at < moving.buffer.size);
}

std::shared_ptr<Transfer> MpiMessages::send(int peer, uint64_t tag, Buffer buffer, Deadline) {
  std::lock_guard lock(mpi_.mutex);
  auto moving = make(true, peer, tag, buffer);
  if (buffer.size) memcpy(moving->memory.get(), buffer.data, buffer.size);
  start(*moving);
  moving_.push_back(moving);
  return moving;
}

std::shared_ptr<Transfer> MpiMessages::receive(int peer, uint64_t tag, Buffer buffer) {
  std::lock_guard lock(mpi_.mutex);
  auto moving = make(false, peer, tag, buffer);
  if (peer >= 0) start(*moving);
  moving_.push_back(moving);
  return moving;
}

// Looks after one; true when it is over.
bool MpiMessages::move(Moving& moving) {
  MpiLibrary::Status status{};
  int over = 0;
  if (!moving.started) {  // from anyone
    mpi_.check(mpi_.iprobe(mpi_.any_source, moving.label, moving.communicator, &over, &status));
    if (!over) return false;
    moving.peer = status.words[mpi_.source_word];
    start(moving);
  }
  while (!moving.requests.empty()) {
    int code = mpi_.test(&moving.requests.front(), &over, &status);
    if (code != 0) {
      moving.requests.erase(moving.requests.begin());
      throw Error(Fault::kBackend, moving.sends ? mpi_.message(code)
                                                : "recv: what came from rank " + std::to_string(moving.peer) +
                                                      " does not go into the " + std::to_string(moving.buffer.size) +
                                                      " bytes of the tensor: " + mpi_.message(code));
    }
    if (!over) return false;
    int count = 0;
    if (!moving.sends && moving.buffer.size <= kPiece && mpi_.get_count(&status, mpi_.byte, &count) == 0 &&
        static_cast<size_t>(count) != moving.buffer.size) {
      throw Error(Fault::kBackend, other_size(count, moving.peer, moving.buffer.size));
    }
    moving.requests.erase(moving.requests.begin());
  }
  if (!moving.sends && moving.buffer.size) memcpy(moving.buffer.data, moving.memory.get(), moving.buffer.size);
  return true;
}

void MpiMessages::move_all() {
  if (mpi_.ended) return;
  for (auto it = moving_.begin(); it != moving_.end();) {
    Moving& moving = **it;
    try {
      moving.done = move(moving);
    } catch (const Error& error) {
      moving.error = error.what();
      moving.fault = error.fault();
      moving.done = true;
    }
    it = moving.done ? moving_.erase(it) : std::next(it);
  }
}

void MpiMessages::give_up(const std::shared_ptr<Moving>& moving, const std::string& why, Fault fault) {
  moving->error = why;
  moving->fault = fault;
  moving->done = true;
  mpi_.given_up.push_back(moving);
}

void MpiMessages::wait(const std::shared_ptr<Transfer>& transfer, Deadline deadline) {
  auto looked = Clock::now();
  for (int turn = 0;; ++turn) {
    {
      std::lock_guard lock(mpi_.mutex);
      if (!transfer->done) move_all();
      if (transfer->done) break;
      auto moving = std::static_pointer_cast<Moving>(transfer);
      bool late = Clock::now() >= deadline;
      if (late || mpi_.ended) {
        moving_.remove(moving);
        give_up(moving, late ? too_late(*transfer) : "MPI was ended in this process",
                late ? Fault::kTimeout : Fault::kBackend);
        break;
      }
    }
    if (turn < 200) {
      sched_yield();
      continue;
    }
    timespec pause{0, turn < 2000 ? 10'000 : 200'000};
    nanosleep(&pause, nullptr);
    if (!g_interrupted || Clock::now() - looked < std::chrono::milliseconds(50)) continue;
    looked = Clock::now();
    if (!g_interrupted()) continue;
    std::lock_guard lock(mpi_.mutex);
    auto moving = std::static_pointer_cast<Moving>(transfer);
    moving_.remove(moving);
    if (!moving->done) give_up(moving, "interrupted", Fault::kInterrupted);
    throw Error(Fault::kInterrupted, "interrupted");
  }
  if (!transfer->error.empty()) throw Error(transfer->fault, transfer->error);
}

bool MpiMessages::is_done(Transfer& transfer) {
  std::lock_guard lock(mpi_.mutex);
  if (!transfer.done) move_all();
  return transfer.done;
}

void MpiMessages::move_in_background() {
  std::lock_guard lock(mpi_.mutex);
  if (thread_.joinable()) return;
  thread_ = std::thread([this] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    while (true) {
      bool idle;
      {
        std::lock_guard lock(mpi_.mutex);
        if (stopping_ || mpi_.ended) return;
        move_all();
        idle = moving_.empty();
      }
      timespec pause{0, idle ? 2'000'000 : 100'000};
      nanosleep(&pause, nullptr);
    }
  });
}

void MpiMessages::abort(const std::string& why) {
  std::lock_guard lock(mpi_.mutex);
  broken_ = why;
  for (auto& moving : moving_) give_up(moving, why, Fault::kBackend);
  moving_.clear();
}

}  // namespace tessera::distributed
