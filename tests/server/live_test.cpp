// The page's stream: what a watcher is told is what is so, whoever is slow or gone; and of others a tenant is told
// nothing.
#include "server/live/live_feed.h"

#include <condition_variable>
#include <mutex>
#include <set>

#include "server/http/http_text.h"
#include "server/page/page.h"
#include "test_keys.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

// A page: it puts each piece on top of what it knows.
class Watcher {
 public:
  explicit Watcher(Response response) : response_(std::move(response)), woken_(std::make_shared<Woken>()) {
    if (response_.body != Response::Body::kStreamed) return;
    response_.work->on_event([woken = woken_] {
      const std::lock_guard lock(woken->mutex);
      ++woken->times;
      woken->changed.notify_one();
    });
  }
  ~Watcher() {
    if (response_.work) response_.work->on_event({});
  }

  int status() const { return response_.reply.status; }
  bool ended() const { return ended_; }
  size_t largest() const { return largest_; }
  const std::map<std::uint64_t, Json>& cells() const { return cells_; }
  const std::vector<Json>& finished() const { return finished_; }
  const Json& hello() const { return hello_; }
  std::int64_t kind(const std::string& name) const {
    const auto found = kinds_.find(name);
    return found == kinds_.end() ? 0 : found->second;
  }
  std::int64_t sight(BlockSight sight) const {
    return std::ranges::count_if(cells_, [&](const auto& cell) { return cell.second[2] == static_cast<int>(sight); });
  }

  // Takes what comes until `enough`; false: it did not come.
  template <class Enough>
  bool until(Enough enough) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!enough()) {
      {
        std::unique_lock lock(woken_->mutex);
        if (!woken_->changed.wait_until(lock, end, [&] { return woken_->times > 0; })) return false;
        woken_->times = 0;
      }
      const Work::Progress progress = response_.work->take();
      ended_ = progress.done;
      read(progress.bytes);
    }
    return true;
  }

 private:
  struct Woken {
    std::mutex mutex;
    std::condition_variable changed;
    int times = 0;
  };

  void read(const std::string& bytes) {
    largest_ = std::max(largest_, bytes.size());
    if (bytes.empty()) return;
    EXPECT_TRUE(bytes.starts_with("data: ") && bytes.ends_with("\n\n")) << bytes;
    const Json piece = Json::parse(bytes.substr(6));
    if (piece.contains("hello")) hello_ = piece["hello"];
    for (const Json& row : piece.value("blocks", Json::array())) cells_[row[0].get<std::uint64_t>()] = row;
    for (const Json& cell : piece.value("gone", Json::array())) cells_.erase(cell.get<std::uint64_t>());
    for (const Json& event : piece.value("events", Json::array())) ++kinds_[event[0].get<std::string>()];
    for (const Json& one : piece.value("finished", Json::array())) finished_.push_back(one);
  }

  Response response_;
  std::shared_ptr<Woken> woken_;
  std::map<std::uint64_t, Json> cells_;
  std::map<std::string, std::int64_t> kinds_;
  std::vector<Json> finished_;
  Json hello_;
  size_t largest_ = 0;
  bool ended_ = false;
};

Response open(Service& service, const std::string& key = {}) {
  HttpRequest request{"GET", "/kvasir/live", "", "req-live"};
  request.key = key;
  const std::optional<HttpReply> refused = service.identify(request);
  if (!refused) return service.handle(request);
  Response response;
  response.reply = *refused;
  return response;
}

class LiveFeedTest : public ServiceDraft {};

// With services of their own, which have keys.
class LiveKeysTest : public ServedDraft {
 protected:
  Reply ask_as(Service& service, const std::string& key, const std::string& method, const std::string& path,
               const std::string& body = {}) {
    HttpRequest request{method, path, body, "req-live"};
    request.key = key;
    if (const auto refused = service.identify(request)) return {refused->status, {}, refused->body};
    Response response = service.handle(request);
    return finish(response);
  }
};

// Without ages, which go on.
std::map<std::uint64_t, Json> what_is(const Watcher& watcher) {
  std::map<std::uint64_t, Json> out;
  for (const auto& [cell, row] : watcher.cells()) {
    Json kept = Json::array();
    for (size_t i = 0; i < row.size(); ++i) {
      if (i != 7 && i != 8) kept.push_back(row[i]);
    }
    out[cell] = kept;
  }
  return out;
}

TEST_F(LiveFeedTest, TellsAllBlocksAndThenWhatChanges) {
  Watcher watcher(open(service_));
  ASSERT_EQ(watcher.status(), 200);
  ASSERT_TRUE(watcher.until([&] { return !watcher.cells().empty(); }));
  EXPECT_EQ(watcher.hello()["model"], "draft");
  const auto all = static_cast<std::int64_t>(watcher.cells().size());
  EXPECT_EQ(all, model_->engine.cache_blocks());
  EXPECT_EQ(post("/v1/chat/completions", story(40)).status, 200);
  ASSERT_TRUE(
      watcher.until([&] { return watcher.finished().size() == 1 && watcher.sight(BlockSight::kInUse) == 0; }));
  EXPECT_GT(watcher.kind("taken"), 0);
  EXPECT_GT(watcher.kind("published"), 0);
  const std::int64_t cached = watcher.sight(BlockSight::kCached);
  EXPECT_GT(cached, 0);
  EXPECT_EQ(watcher.sight(BlockSight::kFree) + cached, all);
  EXPECT_EQ(post("/v1/chat/completions", story(40)).status, 200);
  ASSERT_TRUE(watcher.until([&] { return watcher.finished().size() == 2; }));
  EXPECT_GT(watcher.kind("hit"), 0);
  EXPECT_GT(watcher.finished().back()["reused_tokens"], 0);
}

TEST_F(LiveFeedTest, WhoIsSlowKnowsInTheEndWhatANewOneIsTold) {
  Watcher slow(open(service_));
  for (int i = 0; i < 12; ++i) {
    Json body = story(24);
    body["messages"][0]["content"] = "Tell me story number " + std::to_string(i);
    EXPECT_EQ(post("/v1/chat/completions", body).status, 200);
  }
  ASSERT_TRUE(slow.until([&] { return slow.finished().size() >= 12 && slow.sight(BlockSight::kInUse) == 0; }));
  Watcher fresh(open(service_));
  ASSERT_TRUE(fresh.until([&] { return !fresh.cells().empty(); }));
  EXPECT_EQ(what_is(slow), what_is(fresh));
  EXPECT_LT(slow.largest(), 4 * fresh.largest() + (size_t{1} << 18));  // a snapshot and events: no queue
}

TEST_F(LiveFeedTest, ThereIsAnEndToWatchers) {
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (size_t i = 0; i < LiveFeed::kMostOfOne; ++i) {
    watchers.push_back(std::make_unique<Watcher>(open(service_)));
    EXPECT_EQ(watchers.back()->status(), 200);
  }
  EXPECT_EQ(Watcher(open(service_)).status(), 429);
  watchers.pop_back();
  Watcher last(open(service_));
  EXPECT_EQ(last.status(), 200);
  service_.end_live_streams();
  EXPECT_TRUE(last.until([&] { return last.ended(); }));
  watchers.clear();
  Watcher late(open(service_));
  EXPECT_TRUE(late.until([&] { return late.ended(); }));
}

TEST_F(LiveKeysTest, ATenantIsToldOfItselfOnly) {
  const TestKey alice = new_key("alice");
  const TestKey bob = new_key("bob");
  TestKey boss = new_key("boss");
  boss.entry.sees = KeyEntry::Sees::kAll;
  ServiceOptions options;
  options.keys = KeysFile{random_secret(), {alice.entry, bob.entry, boss.entry}};
  Service service(*model_, options);
  EXPECT_EQ(open(service).reply.status, 401);
  Watcher hers(open(service, alice.key));
  Watcher all(open(service, boss.key));
  ASSERT_TRUE(all.until([&] { return !all.cells().empty(); }));
  const std::string body = story(40).dump();
  EXPECT_EQ(ask_as(service, bob.key, "POST", "/v1/chat/completions", body).status, 200);
  ASSERT_TRUE(all.until([&] { return all.finished().size() == 1 && all.sight(BlockSight::kInUse) == 0; }));
  EXPECT_EQ(ask_as(service, alice.key, "POST", "/v1/chat/completions", body).status, 200);
  ASSERT_TRUE(all.until([&] { return all.finished().size() == 2 && all.sight(BlockSight::kInUse) == 0; }));
  ASSERT_TRUE(hers.until([&] { return hers.finished().size() == 1 && hers.sight(BlockSight::kInUse) == 0; }));
  EXPECT_FALSE(hers.hello()["operator"].get<bool>());
  EXPECT_EQ(hers.hello()["tenants"].size(), 1U);
  EXPECT_EQ(hers.finished()[0]["tenant"], 1);
  EXPECT_EQ(hers.sight(BlockSight::kFree), 0);  // how many are free tells what others have
  EXPECT_EQ(hers.cells().size() * 2, static_cast<size_t>(all.sight(BlockSight::kCached)));
  EXPECT_EQ(hers.kind("taken") * 2, all.kind("taken"));
  std::set<std::string> own;
  for (const auto& [cell, row] : hers.cells()) {
    EXPECT_FALSE(all.cells().contains(cell)) << "the number of a block is its place";
    own.insert(row[9].get<std::string>());
  }
  for (const auto& [cell, row] : all.cells()) {
    if (row.size() < 10) continue;
    const std::string path = "/kvasir/blocks/" + row[9].get<std::string>();
    const bool is_hers = own.contains(row[9].get<std::string>());
    EXPECT_EQ(ask_as(service, alice.key, "GET", path).status, is_hers ? 200 : 404);
    EXPECT_EQ(ask_as(service, bob.key, "GET", path).status, is_hers ? 404 : 200);
    EXPECT_TRUE(ask_as(service, boss.key, "GET", path).json()["text"].is_null());
  }
  const std::string first = "/kvasir/blocks/" + *own.begin();
  EXPECT_TRUE(ask_as(service, alice.key, "GET", first).json()["text"].is_string());
}

TEST_F(LiveKeysTest, ThePageNeedsNoKeyAndAsksNobodyElse) {
  const TestKey alice = new_key("alice");
  ServiceOptions options;
  options.keys = KeysFile{random_secret(), {alice.entry}};
  const TestServer server(*model_, {}, options);
  const Reply page = server.ask("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.headers.at("content-type").starts_with("text/html"));
  EXPECT_TRUE(page.headers.at("content-security-policy").starts_with("default-src 'none'; script-src 'self'"));
  EXPECT_EQ(server.ask("GET", "/kvasir/live").status, 401);
  EXPECT_EQ(server.ask("GET", "/page/../keys.json").status, 404);
  for (const PageFile& file : page_files()) {
    const Reply plain = server.ask("GET", std::string(file.path));
    EXPECT_EQ(plain.body, file.bytes);
    EXPECT_FALSE(plain.headers.contains("content-encoding"));
    if (file.gzip.empty()) continue;
    const Reply small = server.ask("GET", std::string(file.path), {}, "accept-encoding: br, gzip\r\n");
    EXPECT_EQ(small.body, file.gzip);
    EXPECT_EQ(small.headers.at("content-encoding"), "gzip");
  }
}

TEST(AcceptsGzip, AsTheHeaderSays) {
  EXPECT_TRUE(accepts_gzip("gzip, deflate, br"));
  EXPECT_TRUE(accepts_gzip("br;q=1.0, GZIP;q=0.5"));
  EXPECT_FALSE(accepts_gzip("gzip;q=0, br"));
  EXPECT_FALSE(accepts_gzip("br"));
  EXPECT_FALSE(accepts_gzip(""));
}

TEST(OwnPages, ComeFromTheHostThatIsAsked) {
  EXPECT_TRUE(is_origin_of_host("http://box:8080", "box:8080"));
  EXPECT_TRUE(is_origin_of_host("https://Box", "box"));
  EXPECT_FALSE(is_origin_of_host("http://box:8080", "box:8081"));
  EXPECT_FALSE(is_origin_of_host("http://box.evil", "box"));
  EXPECT_FALSE(is_origin_of_host("null", "null"));
  EXPECT_FALSE(is_origin_of_host("http://", ""));
}

}  // namespace
}  // namespace kvasir::testing
