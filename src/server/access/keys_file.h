// The keys file: who may use the server, what share of the cache each has, and the secret that all of their block
// keys are derived from. Keys themselves are not in it, only their hashes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "kv/tenant.h"

namespace kvasir {

struct KeyEntry {
  enum class Sees {
    kOwn,  // of /metrics: its own numbers
    kAll,  // an operator's key: everybody's
  };
  std::string name;  // of the tenant: letters, digits, '.', '_', '-'; at most 64
  Key256 hash;       // hash_of_key
  std::string created;
  TenantShare share;
  Sees sees = Sees::kOwn;
};

struct KeysFile {
  Key256 secret;
  std::vector<KeyEntry> entries;

  const KeyEntry* find(std::string_view name) const;  // nullptr: none
};

// 32 random bytes.
Key256 random_secret();

// "kv-" and 256 random bits, fit for a header.
std::string random_key();

// BLAKE2b-256. A slow hash protects what people can guess; nobody guesses 256 random bits, and a fast one lets every
// request be checked without a way to keep the server busy with wrong keys.
Key256 hash_of_key(std::string_view key);

// Throws Error (bad input) when names repeat, shares make no sense, or more than everything is guaranteed. `where`
// names the file.
void check_keys(const KeysFile& keys, const std::string& where);

// JSON. parse_keys throws Error for anything it does not know: a typing error must not open a door.
KeysFile parse_keys(std::string_view text, const std::string& where);
std::string text_of(const KeysFile& keys);

KeysFile read_keys(const std::filesystem::path& path);
void write_keys(const std::filesystem::path& path, const KeysFile& keys);  // checks first

}  // namespace kvasir
