#include "server/access/keys_file.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "base/private_file.h"
#include "server/api/json_fields.h"

namespace kvasir {
namespace {

constexpr size_t kLongestFile = 16 << 20;
constexpr Fields::Range kWeights{0.001, 1000};
constexpr const char* kFix = "write it with kvasir keys";

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

Key256 key_of_hex(const std::string& hex) {
  Key256 out;
  size_t size = 0;
  const bool read =
      sodium_hex2bin(out.bytes.data(), out.bytes.size(), hex.data(), hex.size(), nullptr, &size, nullptr) == 0;
  if (!read || size != out.bytes.size() || hex.size() != 2 * size)
    fail_input("a secret or a hash must be 64 hex digits");
  return out;
}

// 7, not 7.000000000000001.
double percent(double share) { return std::round(share * 1e8) / 1e6; }

void know_fields(const Fields& fields, std::span<const std::string_view> known) {
  for (const auto& [name, value] : fields.json().items()) {
    if (std::ranges::find(known, name) == known.end())
      fail_input(fmt::format("the field \"{}\" is not known", name.substr(0, 40)));
  }
}

KeyEntry entry_of(const Fields& fields) {
  static constexpr std::array<std::string_view, 7> kKnown{"name",         "hash",   "created", "guaranteed_percent",
                                                          "most_percent", "weight", "operator"};
  know_fields(fields, kKnown);
  KeyEntry entry;
  entry.name = fields.required_text("name");
  entry.hash = key_of_hex(fields.required_text("hash"));
  entry.created = fields.text("created").value_or("");
  entry.share.guaranteed = fields.number("guaranteed_percent", {0, 100}).value_or(0) / 100;
  entry.share.most = fields.number("most_percent", {0, 100}).value_or(100) / 100;
  entry.share.weight = fields.number("weight", kWeights).value_or(1);
  entry.sees = fields.boolean("operator").value_or(false) ? KeyEntry::Sees::kAll : KeyEntry::Sees::kOwn;
  return entry;
}

KeysFile keys_of(const Json& json) {
  static constexpr std::array<std::string_view, 3> kKnown{"version", "secret", "keys"};
  const Fields fields(json);
  know_fields(fields, kKnown);
  if (fields.integer("version", {1, 1}) != 1) fail_input("the version must be 1");
  KeysFile keys;
  keys.secret = key_of_hex(fields.required_text("secret"));
  const Json& list = fields.required("keys");
  if (!list.is_array()) fail_input("keys must be an array");
  for (size_t i = 0; i < list.size(); ++i)
    keys.entries.push_back(entry_of(Fields(list[i], fmt::format("keys[{}].", i))));
  return keys;
}

}  // namespace

const KeyEntry* KeysFile::find(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &KeyEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

Key256 random_secret() {
  CHECK(sodium_init() >= 0);
  Key256 out;
  randombytes_buf(out.bytes.data(), out.bytes.size());
  return out;
}

std::string random_key() {
  const Key256 secret = random_secret();
  constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::array<char, sodium_base64_ENCODED_LEN(32, kVariant)> text{};
  sodium_bin2base64(text.data(), text.size(), secret.bytes.data(), secret.bytes.size(), kVariant);
  return std::string("kv-") + text.data();
}

Key256 hash_of_key(std::string_view key) {
  const std::array<std::string_view, 2> parts{"kvasir api key", key};
  return keyed_hash(Key256{}, parts);
}

void check_keys(const KeysFile& keys, const std::string& where) {
  std::set<std::string_view> names;
  std::set<Key256> hashes;
  double guaranteed = 0;
  for (const KeyEntry& entry : keys.entries) {
    if (!is_name(entry.name)) {
      fail_input(fmt::format("'{}' is not a tenant's name", entry.name.substr(0, 80)), where,
                 "use up to 64 letters, digits, '.', '_' and '-'");
    }
    if (!names.insert(entry.name).second) fail_input(fmt::format("{} is there twice", entry.name), where);
    if (!hashes.insert(entry.hash).second)
      fail_input(fmt::format("{} has another tenant's key", entry.name), where, "one key is one tenant");
    const TenantShare& share = entry.share;
    const bool sane = share.guaranteed >= 0 && share.guaranteed <= 1 && share.most > 0 && share.most <= 1 &&
                      share.weight >= kWeights.least && share.weight <= kWeights.most;
    if (!sane) {
      fail_input(fmt::format("the share of {} makes no sense", entry.name), where,
                 "use 0% to 100%, and a weight of 0.001 to 1000");
    }
    if (share.most < share.guaranteed) {
      fail_input(fmt::format("{} is guaranteed {:g}% and may have at most {:g}%", entry.name, share.guaranteed * 100,
                             share.most * 100),
                 where, "make the most at least the guarantee");
    }
    guaranteed += share.guaranteed;
  }
  if (guaranteed > 1 + 1e-9) {
    fail_input(fmt::format("the guarantees add up to {:g}% of the cache", guaranteed * 100), where,
               "keep them within 100%");
  }
}

KeysFile parse_keys(std::string_view text, const std::string& where) {
  // The library's words would quote the text, and the text is secret.
  if (!Json::accept(text)) fail_input("the file is not JSON", where, kFix);
  KeysFile keys;
  try {
    keys = keys_of(parse_json(text));
  } catch (const Error& error) {
    fail_input(error.parts().what, where, kFix);
  }
  check_keys(keys, where);
  return keys;
}

std::string text_of(const KeysFile& keys) {
  OrderedJson list = OrderedJson::array();
  for (const KeyEntry& entry : keys.entries) {
    OrderedJson out{{"name", entry.name}, {"hash", entry.hash.hex()}, {"created", entry.created}};
    const TenantShare plain;
    if (entry.share.guaranteed != plain.guaranteed) out["guaranteed_percent"] = percent(entry.share.guaranteed);
    if (entry.share.most != plain.most) out["most_percent"] = percent(entry.share.most);
    if (entry.share.weight != plain.weight) out["weight"] = entry.share.weight;
    if (entry.sees == KeyEntry::Sees::kAll) out["operator"] = true;
    list.push_back(std::move(out));
  }
  const OrderedJson json{{"version", 1}, {"secret", keys.secret.hex()}, {"keys", std::move(list)}};
  return json.dump(2) + "\n";
}

KeysFile read_keys(const std::filesystem::path& path) {
  return parse_keys(read_small_file(path, kLongestFile), path.string());
}

void write_keys(const std::filesystem::path& path, const KeysFile& keys) {
  check_keys(keys, path.string());
  replace_private_file(path, text_of(keys));
}

}  // namespace kvasir
