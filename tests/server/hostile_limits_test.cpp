// One client that takes all there is of something: others keep their part, and health is told at once.
#include "held_server.h"
#include "server/http/body_budget.h"
#include "test_keys.h"

namespace kvasir::testing {
namespace {

using std::chrono::milliseconds;

TEST(HostileHandlers, BusyOnesDelayNeitherHealthNorOtherTenants) {
  HeldServer server;
  std::vector<std::unique_ptr<Client>> held;
  for (int i = 0; i < 8; ++i) held.push_back(server.begin("/held", "alice"));
  ASSERT_TRUE(eventually([&] { return server.handled() == 1; }));
  EXPECT_EQ(server.ask("/health").status, 200);
  EXPECT_EQ(server.ask("/quick", "bob").status, 200);
  EXPECT_EQ(server.ask("/health", "alice").status, 200);
  server.let_go();
  for (const auto& client : held) EXPECT_EQ(client->read_reply().status, 200);
}

TEST(HostileHandlers, AQuestionForTheEngineHoldsNoHandler) {
  HeldServer server({.handler_threads = 1});
  const auto question = server.begin("/held/question");
  ASSERT_TRUE(eventually([&] { return server.handled() == 1; }));
  EXPECT_EQ(server.ask("/quick").status, 200);
  server.let_go();
  EXPECT_EQ(question->read_reply().status, 200);
}

TEST(HostileHandlers, WaitingForOneIsBounded) {
  HeldServer server({.handler_threads = 1, .handler_queue = 2});
  const auto running = server.begin("/held", "alice");
  ASSERT_TRUE(eventually([&] { return server.handled() == 1; }));
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(server.begin("/held", "alice"));
  // Two wait and one is turned away, whichever.
  const auto turned_away = [&] {
    return std::ranges::count_if(waiting, [](const auto& client) { return Client::readable(*client); });
  };
  ASSERT_TRUE(eventually([&] { return turned_away() == 1; }));
  for (const auto& client : waiting) {
    if (!Client::readable(*client)) continue;
    const Reply reply = client->read_reply();
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.headers.at("retry-after"), "1");
  }
  const auto bob = server.begin("/quick", "bob");
  server.let_go();
  EXPECT_EQ(bob->read_reply().status, 200);
}

TEST(HostileHandlers, ADeadlineReachesThoseThatWait) {
  HeldServer server({.request_timeout = milliseconds(200), .handler_threads = 1});
  const auto running = server.begin("/held");
  ASSERT_TRUE(eventually([&] { return server.handled() == 1; }));
  const auto waiting = server.begin("/held");
  const Reply reply = waiting->read_reply();
  EXPECT_EQ(reply.status, 504);
  EXPECT_EQ(reply.headers.at("x-should-retry"), "false");
  server.let_go();
  EXPECT_EQ(running->read_reply().status, 200);
  EXPECT_EQ(server.handled(), 1);  // nobody worked for who was gone
}

TEST(HostileHandlers, AClientThatLeavesGivesItsPlaceBack) {
  HeldServer server({.handler_threads = 1, .handler_queue = 1});
  const auto running = server.begin("/held");
  ASSERT_TRUE(eventually([&] { return server.handled() == 1; }));
  for (int i = 0; i < 3; ++i) {
    auto leaves = server.begin("/held");
    std::this_thread::sleep_for(milliseconds(30));
    leaves->reset();
    std::this_thread::sleep_for(milliseconds(30));
  }
  const auto stays = server.begin("/quick");
  server.let_go();
  EXPECT_EQ(running->read_reply().status, 200);
  EXPECT_TRUE(eventually([&] { return server.ask("/quick").status == 200; }));
}

TEST(HostileBodies, HaveABudgetTogether) {
  HttpOptions options;
  options.body_bytes = 1 << 20;
  options.bodies_bytes = 2 << 20;
  HeldServer server(options);
  const auto announce = [&](const std::string& tenant) {
    auto client = std::make_unique<Client>(server.port());
    client->send("POST /quick HTTP/1.1\r\nhost: localhost\r\nx-api-key: " + tenant +
                 "\r\ncontent-length: 900000\r\n\r\nx");
    return client;
  };
  const auto alice = announce("alice");
  EXPECT_EQ(server.ask("/quick", "alice").status, 200);  // a small one is always read
  const auto second = announce("alice");                 // half is all that a tenant has
  const Reply reply = second->read_reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.at("retry-after"), "1");
  EXPECT_EQ(reply.headers.at("connection"), "close");
  // Another tenant has the other half; with chunks, what was read counts.
  Client bob(server.port());
  bob.send("POST /quick HTTP/1.1\r\nhost: localhost\r\nx-api-key: bob\r\ntransfer-encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(bob.send(chunk));
  bob.send("0\r\n\r\n");
  EXPECT_EQ(bob.read_reply().status, 200);
  // Who leaves gives its share back.
  alice->reset();
  EXPECT_TRUE(eventually([&] {
    const auto again = announce("alice");
    again->send(std::string(899'999, ' '));
    return again->read_reply().status == 200;
  }));
}

TEST(HostileBodies, WaitForAHandlerInTheBudget) {
  HttpOptions options;
  options.body_bytes = 1 << 20;
  options.bodies_bytes = 2 << 20;
  options.handler_threads = 1;
  HeldServer server(options);
  const std::string body(900'000, ' ');
  const auto first = server.begin("/held", "", body);
  const auto second = server.begin("/held", "", body);
  ASSERT_TRUE(eventually([&] { return server.handled() == 1; }));
  EXPECT_TRUE(eventually([&] { return server.begin("/quick", "", body)->read_reply().status == 503; }));
  server.let_go();
  EXPECT_EQ(first->read_reply().status, 200);
  EXPECT_EQ(second->read_reply().status, 200);
  EXPECT_EQ(server.begin("/quick", "", body)->read_reply().status, 200);
}

TEST(HostileBodies, AShareIsCountedOnce) {
  BodyBudget budget(100'000);
  BodyBudget::Share first(budget, "");
  EXPECT_TRUE(first.grow_to(60'000));
  EXPECT_TRUE(first.grow_to(50'000));
  BodyBudget::Share second(budget, "");
  EXPECT_FALSE(second.grow_to(60'000));
  EXPECT_TRUE(second.grow_to(40'000));
  first = BodyBudget::Share();
  EXPECT_TRUE(second.grow_to(100'000));
  BodyBudget::Share named(budget, "alice");
  EXPECT_FALSE(named.grow_to(20'000));
  second.reset();
  EXPECT_FALSE(named.grow_to(60'000));
  EXPECT_TRUE(named.grow_to(50'000));
}

}  // namespace
}  // namespace kvasir::testing
