// Who a key stands for, which secrets that gives, and in which headers keys and hosts are found.
#include <set>

#include "server/access/tenants.h"
#include "server/http/http_text.h"
#include "test_keys.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

TEST(Tenants, WithoutKeysThereIsOneWithASecretOfItsProcess) {
  const Tenants first(std::nullopt, 4);
  const Tenants second(std::nullopt, 4);
  EXPECT_TRUE(first.open());
  EXPECT_EQ(first.find("anything"), first.find(""));
  EXPECT_NE(first.find("")->secret, second.find("")->secret);
  EXPECT_NE(first.find("")->secret, Key256{});
}

TEST(Tenants, AKeyOpensOneDoor) {
  const TestKey alice = new_key("alice");
  const TestKey bob = new_key("bob");
  const Tenants tenants(KeysFile{random_secret(), {alice.entry, bob.entry}}, 4);
  EXPECT_FALSE(tenants.open());
  EXPECT_EQ(tenants.find(alice.key)->name, "alice");
  EXPECT_EQ(tenants.find(bob.key)->name, "bob");
  EXPECT_EQ(tenants.find(""), nullptr);
  EXPECT_EQ(tenants.find(alice.key + "x"), nullptr);
  EXPECT_EQ(tenants.find(alice.key.substr(1)), nullptr);
  EXPECT_EQ(tenants.find(alice.entry.hash.hex()), nullptr);  // the file's content is no key
}

TEST(Tenants, IdsAndSecretsFollowTheNameOverReloads) {
  const TestKey alice = new_key("alice");
  const TestKey bob = new_key("bob", {0.5, 1, 1});
  const TestKey carol = new_key("carol");
  const TestKey new_bob = new_key("bob");
  const Key256 secret = random_secret();
  Tenants tenants(KeysFile{secret, {alice.entry, bob.entry}}, 4);
  const auto before = tenants.find(bob.key);
  tenants.replace({secret, {carol.entry, alice.entry}});
  EXPECT_EQ(tenants.find(bob.key), nullptr);
  EXPECT_EQ(tenants.find(alice.key)->id, 1U);
  EXPECT_EQ(tenants.find(carol.key)->id, 3U);
  EXPECT_EQ(tenants.all()[1]->share.guaranteed, 0);  // nothing is kept for who is gone
  tenants.replace({secret, {new_bob.entry}});
  EXPECT_EQ(tenants.find(bob.key), nullptr);
  EXPECT_EQ(tenants.find(new_bob.key)->id, before->id);
  EXPECT_EQ(tenants.find(new_bob.key)->secret, before->secret);
  EXPECT_EQ(tenants.find(new_bob.key)->admission, before->admission);
  tenants.replace({random_secret(), {new_bob.entry}});
  EXPECT_NE(tenants.find(new_bob.key)->secret, before->secret);
}

TEST(Tenants, NoTwoSpacesShareASecret) {
  const TestKey alice = new_key("alice");
  const TestKey bob = new_key("bob");
  const Tenants tenants(KeysFile{random_secret(), {alice.entry, bob.entry}}, 4);
  std::set<Key256> seen;
  size_t all = 0;
  for (const std::string& key : {alice.key, bob.key}) {
    for (const char* salt : {"", "a", "ab", "abc", "b"}) {
      for (const char* cache_key : {"", "a", "bc", "c", "b"}) {
        seen.insert(cache_owner(*tenants.find(key), {salt, cache_key}).secret);
        ++all;
      }
    }
  }
  EXPECT_EQ(seen.size(), all);
}

TEST(Headers, KeysAreFoundInEitherHeader) {
  EXPECT_EQ(key_of("Bearer kv-1", ""), "kv-1");
  EXPECT_EQ(key_of("bearer   kv-1", "kv-2"), "kv-1");
  EXPECT_EQ(key_of("", "kv-2"), "kv-2");
  EXPECT_EQ(key_of("Basic dTpw", "kv-2"), "kv-2");
  EXPECT_EQ(key_of("Bearer", ""), "");
  EXPECT_EQ(key_of("Bearer ", ""), "");
  EXPECT_EQ(key_of("Basic dTpw", ""), "");
}

TEST(Headers, OnlyLocalAndNamedHostsAreOurs) {
  const std::vector<std::string> allowed{"Box.lan"};
  for (const char* good : {"localhost", "LocalHost:8080", "127.0.0.1:9", "[::1]:8080", "[::1]", "box.LAN:80", ""})
    EXPECT_TRUE(is_allowed_host(good, allowed)) << good;
  for (const char* bad : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
                          "box.lan.evil.example", "[::2]", "192.168.0.1:8080", "xbox.lan"})
    EXPECT_FALSE(is_allowed_host(bad, allowed)) << bad;
}

}  // namespace
}  // namespace kvasir::testing
