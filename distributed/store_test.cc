// Stores, their server and the frames that it takes.

#include "distributed/store.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>
#include <thread>

namespace tessera::distributed {
namespace {

using Fields = std::vector<std::string>;

TEST(Frame, ComesBackHoweverTheBytesAreCut) {
  std::string bytes = encode(7, 3, {"key", "", std::string_view("a\0b", 3)}) + encode(8, 1, {});
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameReader reader;
    bool good = true;
    std::vector<Frame> frames;
    for (auto part : {bytes.substr(0, cut), bytes.substr(cut)}) {
      reader.append(part.data(), part.size());
      while (auto frame = reader.next(good)) frames.push_back(*frame);
      ASSERT_TRUE(good);
    }
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(frames[0].id, 7u);
    EXPECT_EQ(frames[0].fields, (Fields{"key", "", std::string("a\0b", 3)}));
    EXPECT_TRUE(frames[1].fields.empty());
  }
}

TEST(Frame, RefusesWhatIsMalformed) {
  std::string whole = encode(1, 2, {"key", "value"});
  for (size_t place : {size_t{0}, size_t{9}, size_t{13}, size_t{20}}) {  // sizes and the count
    std::string bytes = whole;
    bytes[place + 3] = '\x7f';
    FrameReader reader;
    reader.append(bytes.data(), bytes.size());
    bool good = true;
    EXPECT_FALSE(reader.next(good)) << place;
    EXPECT_FALSE(good) << place;
  }
}

TEST(Frame, SurvivesRandomBytes) {
  std::mt19937 random(1);
  int whole = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = encode(random(), random(), {"key", "value", "third"});
    for (int i = random() % 4; i > 0; --i) bytes[random() % bytes.size()] = static_cast<char>(random());
    FrameReader reader(1 << 16);
    bool good = true;
    for (size_t at = 0; at < bytes.size() && good;) {
      size_t n = std::min<size_t>(1 + random() % 7, bytes.size() - at);
      reader.append(bytes.data() + at, n);
      at += n;
      while (reader.next(good)) ++whole;
    }
    refused += !good;
  }
  EXPECT_GT(whole, 1000);
  EXPECT_GT(refused, 1000);
}

class Server : public testing::Test {
 protected:
  StoreServer server_{"127.0.0.1", 0, -1};
  Deadline soon() { return deadline_after(10); }
  StoreClient client() { return StoreClient("127.0.0.1", server_.port(), soon()); }
};

TEST_F(Server, ServesValuesAndNumbers) {
  auto store = client();
  store.ask(Ask::kSet, {"a", "1"}, soon());
  EXPECT_EQ(store.ask(Ask::kGet, {"a"}, soon()), Fields{"1"});
  EXPECT_EQ(store.ask(Ask::kAdd, {"a", "41"}, soon()), Fields{"42"});
  EXPECT_EQ(store.ask(Ask::kCompareSet, {"a", "42", "x"}, soon()), Fields{"x"});
  EXPECT_EQ(store.ask(Ask::kCheck, {"a", "b"}, soon()), Fields{"0"});
  EXPECT_EQ(store.ask(Ask::kDelete, {"a"}, soon()), Fields{"1"});
  EXPECT_EQ(store.ask(Ask::kCount, {}, soon()), Fields{"0"});
  EXPECT_THROW(store.ask(Ask::kAdd, {"a", "many"}, soon()), Error);
}

TEST_F(Server, WakesWhoWaits) {
  auto reader = client();
  std::thread later([this] {
    auto writer = client();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    writer.ask(Ask::kMultiSet, {"a", "1", "b", "2"}, soon());
  });
  EXPECT_EQ(reader.ask(Ask::kGet, {"a", "b"}, soon()), (Fields{"1", "2"}));
  later.join();
}

TEST_F(Server, ForgetsAWaitThatTimedOut) {
  auto store = client();
  EXPECT_THROW(store.ask(Ask::kPop, {"q", "1"}, deadline_after(0.05)), Error);
  store.ask(Ask::kPush, {"q", "v"}, soon());
  EXPECT_EQ(store.ask(Ask::kPop, {"q", "0"}, soon()), Fields{"v"});
}

TEST_F(Server, AConnectionIsForManyThreads) {
  auto store = client();
  std::thread waits([&] { EXPECT_EQ(store.ask(Ask::kGet, {"late"}, soon()), Fields{"v"}); });
  for (int i = 0; i < 100; ++i) store.ask(Ask::kAdd, {"n", "1"}, soon());
  store.ask(Ask::kSet, {"late", "v"}, soon());
  waits.join();
}

TEST_F(Server, LosesOnlyConnectionsThatTalkNonsense) {
  auto good = client();
  good.ask(Ask::kSet, {"a", "1"}, soon());
  std::mt19937 random(2);
  std::string hello = encode(1, static_cast<uint8_t>(Ask::kHello), {kProtocol});
  for (int i = 0; i < 300; ++i) {
    Descriptor fd = connect_to("127.0.0.1", server_.port(), soon());
    std::string bytes = i % 2 ? hello : "";
    if (i % 3 == 0) bytes += encode(5, static_cast<uint8_t>(random() % 20), {"b"});
    for (int j = random() % 64; j > 0; --j) bytes.push_back(static_cast<char>(random()));
    bytes += "\xff\xff\xff\xff";
    send_all(fd.get(), bytes.data(), bytes.size(), soon());
    if (i % 2 == 0) {  // without a greeting nobody stays
      char reply[64];
      EXPECT_LE(recv(fd.get(), reply, sizeof(reply), MSG_DONTWAIT), 64);
    }
  }
  EXPECT_EQ(good.ask(Ask::kList, {}, soon()).size(), 1u);
}

TEST_F(Server, TakesManyClients) {
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int i = 0; i < 400; ++i) clients.push_back(std::make_unique<StoreClient>("127.0.0.1", server_.port(), soon()));
  for (auto& one : clients) one->ask(Ask::kAdd, {"n", "1"}, soon());
  EXPECT_EQ(clients[0]->ask(Ask::kGet, {"n"}, soon()), Fields{"400"});
}

TEST(Client, SaysThatTheServerIsGone) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, -1);
  StoreClient store("127.0.0.1", server->port(), deadline_after(10));
  server.reset();
  try {
    store.ask(Ask::kGet, {"a"}, deadline_after(10));
    FAIL();
  } catch (const Error& error) { EXPECT_EQ(error.fault(), Fault::kNetwork); }
}

}  // namespace
}  // namespace tessera::distributed
