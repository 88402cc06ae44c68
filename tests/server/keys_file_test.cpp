// The keys file: what is in it, and what is refused.
#include "server/access/keys_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "base/error.h"
#include "base/private_file.h"

namespace kvasir::testing {
namespace {

KeyEntry entry(const std::string& name, TenantShare share = {}) {
  return {.name = name, .hash = hash_of_key(random_key()), .created = "2026-01-01T00:00:00Z", .share = share};
}

std::string refusal(const std::string& text) {
  try {
    parse_keys(text, "keys.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

class KeysFileTest : public ::testing::Test {
 protected:
  KeysFileTest() { std::filesystem::create_directories(folder_); }
  ~KeysFileTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_keys_" + std::to_string(::getpid()));
  std::filesystem::path path_ = folder_ / "keys.json";
};

TEST_F(KeysFileTest, ComesBackAsItWasWritten) {
  KeysFile keys{random_secret(), {entry("alice", {0.07, 0.5, 2}), entry("bob")}};
  keys.entries[1].sees = KeyEntry::Sees::kAll;
  write_keys(path_, keys);
  const KeysFile back = read_keys(path_);
  EXPECT_EQ(back.secret, keys.secret);
  ASSERT_EQ(back.entries.size(), 2U);
  EXPECT_EQ(back.entries[0].hash, keys.entries[0].hash);
  EXPECT_DOUBLE_EQ(back.entries[0].share.guaranteed, 0.07);
  EXPECT_DOUBLE_EQ(back.entries[0].share.most, 0.5);
  EXPECT_DOUBLE_EQ(back.entries[0].share.weight, 2);
  EXPECT_EQ(back.find("bob")->sees, KeyEntry::Sees::kAll);
  EXPECT_EQ(back.find("carol"), nullptr);
  EXPECT_EQ(text_of(back), text_of(keys));
}

TEST_F(KeysFileTest, OnlyItsOwnerReadsIt) {
  write_keys(path_, {random_secret(), {}});
  struct stat about {};
  ASSERT_EQ(::stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
  EXPECT_FALSE(others_can_read(path_));
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  EXPECT_TRUE(others_can_read(path_));
  write_keys(path_, {random_secret(), {}});  // replaced, and private again
  EXPECT_FALSE(others_can_read(path_));
}

TEST_F(KeysFileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const KeysFile good{random_secret(), {entry("alice")}};
  write_keys(path_, good);
  KeysFile bad = good;
  bad.entries.push_back(bad.entries[0]);
  EXPECT_THROW(write_keys(path_, bad), Error);
  EXPECT_EQ(read_keys(path_).secret, good.secret);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_THROW(write_keys(folder_ / "no-such-folder" / "keys.json", good), Error);
}

TEST_F(KeysFileTest, ALinkStaysALink) {
  const auto real = folder_ / "real.json";
  write_keys(real, {random_secret(), {}});
  std::filesystem::create_symlink(real, path_);
  const KeysFile keys{random_secret(), {entry("alice")}};
  write_keys(path_, keys);
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(read_keys(real).secret, keys.secret);
}

TEST(Keys, AreLongRandomAndFitForAHeader) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string key = random_key();
    EXPECT_EQ(key.size(), 3U + 43U);  // 32 bytes in base64, unpadded
    EXPECT_TRUE(key.starts_with("kv-"));
    EXPECT_EQ(key.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
              std::string::npos);
    seen.insert(key);
  }
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_NE(hash_of_key("kv-a"), hash_of_key("kv-b"));
}

TEST(Keys, WhatMakesNoSenseIsRefusedAndNamed) {
  const KeysFile good{random_secret(), {entry("alice", {0.6, 1, 1})}};
  EXPECT_EQ(refusal(text_of(good)), "accepted");
  const auto with = [&](const KeyEntry& second) {
    KeysFile keys = good;
    keys.entries.push_back(second);
    return refusal(text_of(keys));
  };
  EXPECT_EQ(with(entry("bob", {0.4, 1, 1})), "accepted");
  EXPECT_NE(with(entry("bob", {0.5, 1, 1})).find("add up to 110%"), std::string::npos);
  EXPECT_NE(with(entry("bob", {0.3, 0.2, 1})).find("bob is guaranteed 30% and may have at most 20%"),
            std::string::npos);
  EXPECT_NE(with(entry("bob", {0, 0, 1})).find("share of bob"), std::string::npos);
  EXPECT_NE(with(entry("bob", {0, 1, 0})).find("weight"), std::string::npos);
  EXPECT_NE(with(entry("alice")).find("alice is there twice"), std::string::npos);
  EXPECT_NE(with(entry("a b")).find("'a b' is not a tenant's name"), std::string::npos);
  EXPECT_NE(with(entry("")).find("not a tenant's name"), std::string::npos);
  KeyEntry thief = entry("thief");
  thief.hash = good.entries[0].hash;
  EXPECT_NE(with(thief).find("another tenant's key"), std::string::npos);
}

TEST(Keys, AMistypedFileIsRefusedWithoutQuotingIt) {
  const KeysFile keys{random_secret(), {entry("alice")}};
  const std::string text = text_of(keys);
  const std::string secret = keys.secret.hex();
  for (size_t cut = 0; cut + 2 < text.size(); cut += 7) {
    const std::string said = refusal(text.substr(0, cut));
    EXPECT_NE(said, "accepted") << cut;
    EXPECT_EQ(said.find(secret.substr(0, 8)), std::string::npos) << said;
  }
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string out = text;
    return refusal(out.replace(out.find(from), from.size(), to));
  };
  EXPECT_NE(changed("\"created\"", "\"guarantied_percent\"").find("guarantied_percent"), std::string::npos);
  EXPECT_NE(changed("\"version\": 1", "\"version\": 2").find("version"), std::string::npos);
  EXPECT_NE(changed("\"name\"", "\"nome\"").find("nome"), std::string::npos);
  EXPECT_NE(changed(secret, secret.substr(2)).find("64 hex digits"), std::string::npos);
  EXPECT_NE(changed(secret, "zz" + secret.substr(2)).find("64 hex digits"), std::string::npos);
  EXPECT_NE(refusal("[]"), "accepted");
}

}  // namespace
}  // namespace kvasir::testing
