#pragma once

#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "distributed/messages.h"

namespace tessera::distributed {

// The MPI library of this machine, whichever of the two binary interfaces it has (Open MPI's, MPICH's), loaded when it
// is first asked for.
struct MpiLibrary;

// Whether there is one.
bool mpi_is_there();
// Starts MPI, unless somebody has. Ends it when the process exits.
void mpi_start(int& rank, int& size);

// Messages between processes that mpirun has started. What is on its way is in memory of this object, so a transfer
// may be given up though MPI cannot take it back.
class MpiMessages : public Messages {
 public:
  // `ranks` are the members' in MPI_COMM_WORLD, in the order of the group. All members call this.
  explicit MpiMessages(const std::vector<int>& ranks);
  ~MpiMessages() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::shared_ptr<Transfer> send(int peer, uint64_t tag, Buffer buffer, Deadline deadline) override;
  std::shared_ptr<Transfer> receive(int peer, uint64_t tag, Buffer buffer) override;
  void wait(const std::shared_ptr<Transfer>& transfer, Deadline deadline) override;
  bool is_done(Transfer& transfer) override;
  void move_in_background() override;
  void abort(const std::string& why) override;

 private:
  struct Moving;

  std::shared_ptr<Moving> make(bool sends, int peer, uint64_t tag, Buffer buffer);
  void start(Moving& moving);
  void move_all();
  bool move(Moving& moving);
  void give_up(const std::shared_ptr<Moving>& moving, const std::string& why, Fault fault);

  MpiLibrary& mpi_;
  int rank_ = 0, size_ = 0;
  intptr_t collectives_ = 0, users_ = 0;  // communicators
  std::list<std::shared_ptr<Moving>> moving_;
  std::string broken_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera::distributed
