#include <string.h>

#include <algorithm>

#include "distributed/mesh.h"

namespace tessera::distributed {

// One call of a collective. Messages of calls are told apart by their tags.
class SocketEngine::Call {
 public:
  Call(Mesh* mesh, const Request& request, uint64_t number)
      : mesh_(*mesh),
        request_(request),
        rank_(mesh->rank()),
        size_(mesh->size()),
        deadline_(deadline_after(request.timeout)) {
    tag_ = (uint64_t{1} << 63) | (number << 8);
  }

  void run() {
    switch (request_.what) {
      case Collective::kAllReduce:
        return all_reduce(request_.out[0]);
      case Collective::kBroadcast:
        return broadcast(request_.out[0], request_.root);
      case Collective::kReduce:
        return reduce(request_.out[0]);
      case Collective::kAllGather:
        return all_gather();
      case Collective::kGather:
        return gather();
      case Collective::kScatter:
        return scatter();
      case Collective::kReduceScatter:
        return reduce_scatter(request_.in, request_.out[0]);
      case Collective::kAllToAll:
        return exchange(request_.in, request_.out);
      case Collective::kBarrier:
        return barrier();
    }
  }

 private:
  using Transfers = std::vector<std::shared_ptr<Transfer>>;

  void wait(const std::shared_ptr<Transfer>& transfer) {
    try {
      mesh_.wait(transfer, deadline_);
    } catch (const Error& error) { fail(error); }
  }
  // Transfers that are left use memory that goes away with this call, so none may live on.
  [[noreturn]] void fail(const Error& error) {
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%g", request_.timeout);
    std::string why = std::string(name_of(request_.what)) + " on rank " + std::to_string(rank_) +
                      " of the group (timeout " + seconds + " s): " + error.what();
    mesh_.abort(why);
    throw Error(error.fault(), why);
  }
  void wait(const Transfers& transfers) {
    for (auto& transfer : transfers) wait(transfer);
  }
  std::shared_ptr<Transfer> send(int to, Buffer what, int step = 0) {
    try {
      return mesh_.send(to, tag_ + step, what, deadline_);
    } catch (const Error& error) { fail(error); }
  }
  std::shared_ptr<Transfer> receive(int from, Buffer what, int step = 0) {
    return mesh_.receive(from, tag_ + step, what);
  }

  void copy(Buffer from, Buffer to) {
    if (from.size != to.size) {
      fail(Error(Fault::kBackend,
                 "it gave itself " + std::to_string(from.size) + " bytes, but expected " + std::to_string(to.size)));
    }
    if (from.data != to.data) memcpy(to.data, from.data, from.size);
  }

  void exchange(const std::vector<Buffer>& in, const std::vector<Buffer>& out, int step = 0) {
    Transfers transfers;
    for (int i = 1; i < size_; ++i) {
      int from = (rank_ + size_ - i) % size_;
      transfers.push_back(receive(from, out[from], step));
    }
    for (int i = 1; i < size_; ++i) {
      int to = (rank_ + i) % size_;
      transfers.push_back(send(to, in[to], step));
    }
    copy(in[rank_], out[rank_]);
    wait(transfers);
  }

  void all_gather() { exchange(std::vector<Buffer>(size_, request_.in[0]), request_.out); }

  void gather() {
    if (rank_ != request_.root) return wait(send(request_.root, request_.in[0]));
    Transfers transfers;
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) transfers.push_back(receive(i, request_.out[i]));
    }
    copy(request_.in[0], request_.out[rank_]);
    wait(transfers);
  }

  void scatter() {
    if (rank_ != request_.root) return wait(receive(request_.root, request_.out[0]));
    Transfers transfers;
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) transfers.push_back(send(i, request_.in[i]));
    }
    copy(request_.in[rank_], request_.out[0]);
    wait(transfers);
  }

  // Everyone sends his piece for rank i to i, which folds them.
  void reduce_scatter(const std::vector<Buffer>& in, Buffer out) {
    std::vector<char> memory(out.size * size_);
    std::vector<Buffer> pieces(size_);
    for (int i = 0; i < size_; ++i) pieces[i] = {memory.data() + i * out.size, out.size};
    exchange(in, pieces);
    std::vector<const void*> sources(size_);
    for (int i = 0; i < size_; ++i) sources[i] = pieces[i].data;
    fold_all(request_.kind, request_.fold, out.data, sources.data(), size_, out.size / size_of(request_.kind));
  }

  // Small: to rank 0 and back along a tree. Large: each folds a part, then all have all parts.
  void all_reduce(Buffer buffer) {
    if (buffer.size <= 16384 || size_ == 2) {
      reduce(buffer);
      return broadcast(buffer, 0, 1);
    }
    size_t item = size_of(request_.kind), count = buffer.size / item, part = (count + size_ - 1) / size_;
    std::vector<Buffer> parts(size_);
    for (int i = 0; i < size_; ++i) {
      size_t from = std::min(count, i * part);
      parts[i] = {buffer.data + from * item, std::min(part, count - from) * item};
    }
    reduce_scatter(parts, parts[rank_]);
    exchange(std::vector<Buffer>(size_, parts[rank_]), parts, 1);
  }

  // A binomial tree over the ranks as seen from the root: a rank folds its children in their order and passes on.
  void reduce(Buffer buffer) {
    int root = request_.what == Collective::kReduce ? request_.root : 0;
    int me = (rank_ + size_ - root) % size_;
    size_t count = buffer.size / size_of(request_.kind);
    std::vector<char> sum(buffer.data, buffer.data + buffer.size), next(buffer.size);
    for (int bit = 1; bit < size_; bit *= 2) {
      if (me & bit) {
        wait(send((me - bit + root) % size_, {sum.data(), sum.size()}));
        return;
      }
      if (me + bit >= size_) continue;
      wait(receive((me + bit + root) % size_, {next.data(), next.size()}));
      const void* two[] = {sum.data(), next.data()};
      fold_all(request_.kind, request_.fold, sum.data(), two, 2, count);
    }
    memcpy(buffer.data, sum.data(), sum.size());
  }

  void broadcast(Buffer buffer, int root, int step = 0) {
    int me = (rank_ + size_ - root) % size_, bit = 1;
    while (bit < size_ && !(me & bit)) bit *= 2;
    if (me != 0) wait(receive((me - bit + root) % size_, buffer, step));
    Transfers transfers;
    for (bit /= 2; bit > 0; bit /= 2) {
      if (me + bit < size_) transfers.push_back(send((me + bit + root) % size_, buffer, step));
    }
    wait(transfers);
  }

  void barrier() {
    int step = 0;
    for (int distance = 1; distance < size_; distance *= 2, ++step) {
      auto sent = send((rank_ + distance) % size_, {}, step);
      wait(receive((rank_ + size_ - distance) % size_, {}, step));
      wait(sent);
    }
  }

  Mesh& mesh_;
  const Request& request_;
  int rank_, size_;
  Deadline deadline_;
  uint64_t tag_;
};

void SocketEngine::run(const Request& request) { Call(mesh_, request, ++calls_).run(); }

}  // namespace tessera::distributed
