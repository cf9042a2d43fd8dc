#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "distributed/request.h"
#include "distributed/socket.h"

namespace tessera::distributed {

// A group whose members are processes of one host (and user): all of them map one anonymous file. In a round, each puts
// what it has for others into its slot, waits until everyone has, and takes what it needs. Slots and headers are there
// twice, for rounds of even and odd number, so that one wait a round is enough: nobody writes into a slot of round r +
// 2 before everybody has come to the wait of round r + 1, and read what was there of round r.
class SharedMemory : public Engine {
 public:
  // The memory that the first rank makes, and others open as the descriptor `fd` of process `pid`. Throws kBackend.
  static Descriptor create(int size);
  static Descriptor open(int pid, int fd);

  // `pids`: of all ranks, in their order.
  SharedMemory(int rank, std::vector<int> pids, Descriptor memory);
  ~SharedMemory() override;

  void run(const Request& request) override;
  void abort(const std::string& why) override;

 private:
  struct Header;
  struct Layout;

  void begin(const Request& request);
  size_t agree(const Request& request);
  void wait_for_all(const Request& request);
  void wait_for(const Request& request, int rank, uint32_t round, Deadline deadline);
  [[noreturn]] void fail(Fault fault, const std::string& why);
  std::string missing(uint32_t round) const;
  bool is_gone(int rank);

  void all_reduce(const Request& request);
  void reduce(const Request& request);
  void broadcast(const Request& request);
  void gather(const Request& request);
  void scatter(const Request& request);
  void reduce_scatter(const Request& request);
  void all_to_all(const Request& request);

  size_t piece_for(size_t bytes) const;
  char* slot(int rank) const;
  char* result() const;
  Header& header(int rank) const;
  uint64_t* sizes(int rank) const;
  std::atomic<uint32_t>& arrived(int rank) const;

  int rank_, size_, spins_;
  std::vector<int> pids_;
  std::vector<Descriptor> processes_;
  char* memory_ = nullptr;
  size_t length_ = 0, slot_size_ = 0;
  uint32_t round_ = 0;  // rounds begun; slots and headers of a round lie at its parity
  uint32_t waits_ = 0;  // waits that this rank has come to
  Deadline deadline_;
  std::atomic<bool> aborted_{false};
};

}  // namespace tessera::distributed
