// Collectives between threads of this process, over shared memory and over sockets; reductions.

#include "distributed/group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <numeric>
#include <thread>

#include "distributed/mesh.h"
#include "distributed/shared_memory.h"

namespace tessera::distributed {
namespace {

Buffer bytes(std::vector<float>& values) { return {reinterpret_cast<char*>(values.data()), values.size() * 4}; }

// Members of a group, each on a thread.
void together(int size, bool shared, const std::function<void(int, Group&)>& body) {
  std::vector<Descriptor> listeners;
  std::vector<Mesh::Peer> peers;
  for (int i = 0; i < size; ++i) {
    listeners.push_back(listen_at("127.0.0.1", 0));
    peers.push_back({"127.0.0.1", port_of(listeners[i].get()), shared ? getpid() : 0});
  }
  Descriptor memory = SharedMemory::create(size);
  std::vector<std::unique_ptr<Group>> groups;
  for (int i = 0; i < size; ++i) {
    auto mesh = std::make_unique<Mesh>(i, peers, "secret", std::move(listeners[i]));
    std::unique_ptr<Engine> engine;
    if (shared) {
      engine = std::make_unique<SharedMemory>(i, std::vector<int>(size, getpid()),
                                              SharedMemory::open(getpid(), memory.get()));
    } else {
      engine = std::make_unique<MessageEngine>(mesh.get());
    }
    groups.push_back(std::make_unique<Group>(i, size, std::move(mesh), std::move(engine)));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) threads.emplace_back([&, i] { body(i, *groups[i]); });
  for (auto& thread : threads) thread.join();
}

class Collectives : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int size() { return std::get<0>(GetParam()); }
  void run(const std::function<void(int, Group&)>& body) { together(size(), std::get<1>(GetParam()), body); }
};

TEST_P(Collectives, AllReduceOfEverySizeHasTheSameBits) {
  for (size_t n : {0, 1, 5, 3000, 200001}) {
    std::vector<std::vector<float>> all(size(), std::vector<float>(n));
    run([&](int rank, Group& group) {
      for (size_t i = 0; i < n; ++i) all[rank][i] = 0.1f * static_cast<float>(i % 97) + static_cast<float>(rank);
      Request request;
      request.what = Collective::kAllReduce;
      request.kind = Kind::kF32;
      request.out = {bytes(all[rank])};
      request.timeout = 20;
      group.run(request);
    });
    for (int r = 1; r < size(); ++r) EXPECT_EQ(all[r], all[0]);
    if (n > 4) {
      EXPECT_NEAR(all[0][4], 0.4f * static_cast<float>(size()) + static_cast<float>(size() * (size() - 1)) / 2, 1e-4);
    }
  }
}

// Sums that arrive in the order of ranks, whatever piece and member an element falls to.
TEST_P(Collectives, AllReduceOfSeveralBuffersIsThatOfOne) {
  size_t lengths[] = {3, 0, 700001, 65536, 1};
  std::vector<std::vector<float>> joined(size()), apart(size());
  auto value = [](size_t i, int rank) {
    return (rank % 2 ? -1.3f : 0.7f) * static_cast<float>((i * 31 + rank) % 1009);
  };
  run([&](int rank, Group& group) {
    std::vector<std::vector<float>> parts;
    Request request;
    request.kind = Kind::kF32;
    request.what = Collective::kAllReduce;
    request.scale = 0.3;
    request.timeout = 20;
    for (size_t length : lengths) {
      parts.emplace_back(length);
      for (auto& x : parts.back()) x = value(joined[rank].size(), rank), joined[rank].push_back(x);
    }
    for (auto& part : parts) request.out.push_back(bytes(part));
    group.run(request);
    for (auto& part : parts) apart[rank].insert(apart[rank].end(), part.begin(), part.end());
    request.out = {bytes(joined[rank])};
    group.run(request);
  });
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(apart[r], apart[0]);
    EXPECT_EQ(joined[r], apart[0]);
  }
  for (size_t i : {size_t{0}, size_t{2}, size_t{300000}, size_t{700003}, size_t{765540}}) {
    float sum = 0;
    for (int r = 0; r < size(); ++r) sum += 0.3f * value(i, r);
    EXPECT_NEAR(apart[0][i], sum, 1e-3) << i;
  }
}

TEST_P(Collectives, PiecesGoWhereTheyBelong) {
  int n = size();
  run([&](int rank, Group& group) {
    for (size_t length : {3, 100000}) {
      std::vector<float> mine(length * n), got(length * n), one(length);
      for (int j = 0; j < n; ++j) std::fill_n(mine.begin() + j * length, length, static_cast<float>(10 * rank + j));
      auto cut = [&](std::vector<float>& all) {
        std::vector<Buffer> parts;
        for (int j = 0; j < n; ++j) parts.push_back({reinterpret_cast<char*>(all.data() + j * length), length * 4});
        return parts;
      };
      Request request;
      request.timeout = 20;
      request.what = Collective::kAllToAll;
      request.in = cut(mine);
      request.out = cut(got);
      group.run(request);
      for (int j = 0; j < n; ++j) EXPECT_EQ(got[j * length + 1], static_cast<float>(10 * j + rank));
      request.what = Collective::kReduceScatter;
      request.kind = Kind::kF32;
      request.out = {bytes(one)};
      group.run(request);
      EXPECT_EQ(one[2], static_cast<float>(5 * n * (n - 1) + n * rank));
      request.what = Collective::kAllGather;
      request.kind = Kind::kBytes;
      request.in = {bytes(one)};
      request.out = cut(got);
      group.run(request);
      for (int j = 0; j < n; ++j) EXPECT_EQ(got[(j + 1) * length - 1], static_cast<float>(5 * n * (n - 1) + n * j));
      request.what = Collective::kBroadcast;
      request.root = n - 1;
      request.in = {};
      request.out = {bytes(mine)};
      group.run(request);
      EXPECT_EQ(mine[0], static_cast<float>(10 * (n - 1)));
    }
  });
}

TEST_P(Collectives, WhoDoesNotComeIsNamed) {
  run([&](int rank, Group& group) {
    if (rank == 1) return;
    Request request;
    request.timeout = 0.3;
    try {
      group.run(request);
      ADD_FAILURE() << "nobody missed rank 1";
    } catch (const Error& error) {
      bool direct = std::string(error.what()).find("rank 1") != std::string::npos;
      EXPECT_TRUE(direct || std::get<1>(GetParam()) == false) << error.what();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Engines, Collectives, testing::Combine(testing::Values(2, 3, 4, 7), testing::Bool()));

TEST(Messages, AreToldApartByTags) {
  together(2, false, [](int rank, Group& group) {
    std::vector<float> a{1, 2}, b{3};
    if (rank == 0) {
      auto first = group.messages()->send(1, 5, bytes(a), deadline_after(10));
      auto second = group.messages()->send(1, 6, bytes(b), deadline_after(10));
      group.messages()->wait(first, deadline_after(10));
      group.messages()->wait(second, deadline_after(10));
      return;
    }
    std::vector<float> x(2), y(1);
    group.messages()->wait(group.messages()->receive(-1, 6, bytes(y)), deadline_after(10));
    group.messages()->wait(group.messages()->receive(0, 5, bytes(x)), deadline_after(10));
    EXPECT_EQ(x[1], 2);
    EXPECT_EQ(y[0], 3);
  });
}

TEST(Messages, StrangersAreNotHeard) {
  together(2, false, [](int rank, Group& group) {
    std::vector<float> x{7};
    if (rank == 0) {
      group.messages()->wait(group.messages()->send(1, 1, bytes(x), deadline_after(10)), deadline_after(10));
      return;
    }
    x[0] = 0;
    group.messages()->wait(group.messages()->receive(0, 1, bytes(x)), deadline_after(10));
    EXPECT_EQ(x[0], 7);
    EXPECT_THROW(group.messages()->wait(group.messages()->receive(0, 2, bytes(x)), deadline_after(0.1)), Error);
  });
}

TEST(Fold, HalvesAreRoundedOnce) {
  uint16_t one = 0x3c00, small = 0x1000, sum;  // 1 and 2^-11 in f16
  const void* sources[] = {&one, &small, &small};
  fold_all(Kind::kF16, Fold::kSum, &sum, sources, 3, 1);
  EXPECT_EQ(sum, 0x3c01);  // 1 + 2^-10, which sums of two would have lost
  uint16_t a = 0x3f80, b = 0x4000;
  const void* pair[] = {&a, &b};
  fold_all(Kind::kBF16, Fold::kSum, &sum, pair, 2, 1);
  EXPECT_EQ(sum, 0x4040);
}

TEST(Fold, IntegersWrapAndTruthValuesStayTrue) {
  int8_t x = 100, y = 100, z;
  const void* sources[] = {&x, &y};
  fold_all(Kind::kI8, Fold::kSum, &z, sources, 2, 1);
  EXPECT_EQ(z, static_cast<int8_t>(200));
  fold_all(Kind::kBool, Fold::kSum, &z, sources, 2, 1);
  EXPECT_NE(z, 0);
  EXPECT_FALSE(can_fold(Kind::kF32, Fold::kOr));
  EXPECT_TRUE(can_fold(Kind::kI8, Fold::kXor));
}

}  // namespace
}  // namespace tessera::distributed
