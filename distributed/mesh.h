#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "distributed/messages.h"
#include "distributed/socket.h"

namespace tessera::distributed {

// Messages with tags between the members of a group, by TCP: for each direction a connection, made at the first
// message, over which only somebody who knows the group's secret can speak. Who waits moves everybody's bytes; a thread
// does while there are transfers that nobody waits for.
class Mesh : public Messages {
 public:
  struct Peer {
    std::string host;
    int port = 0;
    int pid = 0;  // of a process of this host, else 0
  };

  Mesh(int rank, std::vector<Peer> peers, std::string secret, Descriptor listener);
  ~Mesh() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  std::shared_ptr<Transfer> send(int peer, uint64_t tag, Buffer buffer, Deadline deadline) override;
  std::shared_ptr<Transfer> receive(int peer, uint64_t tag, Buffer buffer) override;
  void wait(const std::shared_ptr<Transfer>& transfer, Deadline deadline) override;
  bool is_done(Transfer& transfer) override;
  void move_in_background() override;
  void abort(const std::string& why) override;

 private:
  struct Incoming;
  struct Outgoing;
  struct Message;
  using Lock = std::unique_lock<std::mutex>;

  void connect(int peer, Deadline deadline);
  void turn(Lock& lock, int milliseconds);
  void accept_all();
  bool read_from(Incoming& from);
  bool read_head(Incoming& from);
  bool read_body(Incoming& from);
  void route(Incoming& from, uint64_t tag, uint64_t size);
  void close_incoming(int fd, const std::string& why);
  bool write_to(int peer);
  void fail_outgoing(int peer, const std::string& why);
  void finish(Transfer& transfer, const std::string& error = {}, Fault fault = Fault::kNetwork);
  void cancel(const std::shared_ptr<Transfer>& transfer, const std::string& why, Fault fault);
  bool is_gone(int peer);
  void watch(int fd, uint32_t events, int action);

  int rank_;
  std::vector<Peer> peers_;
  std::string secret_;
  Descriptor listener_, epoll_, wake_;
  std::mutex mutex_, connecting_;
  std::condition_variable moved_;
  std::map<int, std::unique_ptr<Incoming>> incoming_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
  std::vector<bool> closed_;  // peers that closed their connection to this rank
  std::vector<Descriptor> processes_;
  std::list<std::shared_ptr<Transfer>> expected_;
  std::list<std::shared_ptr<Message>> unexpected_;
  std::string broken_;
  bool turning_ = false, stopping_ = false, background_ = false;
  std::thread thread_;
};

}  // namespace tessera::distributed
