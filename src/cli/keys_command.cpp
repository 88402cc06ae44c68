#include "cli/keys_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>

#include "base/error.h"
#include "base/private_file.h"
#include "server/access/keys_file.h"

namespace kvasir {
namespace {

struct KeysOptions {
  std::string file;
  std::string name;
  std::string guaranteed = "0%";
  std::string most = "100%";
  double weight = 1;
  bool sees_all = false;
};

void warn_if_open(const std::string& file) {
  if (others_can_read(file)) fmt::print(stderr, "warning: others can read {}; chmod 600\n", file);
}

std::filesystem::path folder_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? "." : folder;
}

void make_folder(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder)) return;
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
}

void add_key(const KeysOptions& options) {
  make_folder(folder_of(options.file));
  const FolderLock lock(folder_of(options.file));
  KeysFile keys;
  if (std::filesystem::exists(options.file)) {
    warn_if_open(options.file);
    keys = read_keys(options.file);
  } else {
    keys.secret = random_secret();
  }
  if (keys.find(options.name) != nullptr) {
    fail_usage(fmt::format("{} has a key already", options.name), options.file,
               fmt::format("remove it first: kvasir keys remove {}", options.name));
  }
  const std::string key = random_key();
  KeyEntry entry;
  entry.name = options.name;
  entry.hash = hash_of_key(key);
  entry.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  entry.share = {parse_percent(options.guaranteed, "--guaranteed"), parse_percent(options.most, "--most"),
                 options.weight};
  entry.sees = options.sees_all ? KeyEntry::Sees::kAll : KeyEntry::Sees::kOwn;
  keys.entries.push_back(std::move(entry));
  write_keys(options.file, keys);
  fmt::print(stderr, "{}: the key of {}, shown this once; a running server reads it on SIGHUP\n", options.file,
             options.name);
  fmt::print("{}\n", key);
}

void list_keys(const KeysOptions& options) {
  warn_if_open(options.file);
  const KeysFile keys = read_keys(options.file);
  size_t width = 6;
  for (const KeyEntry& entry : keys.entries) width = std::max(width, entry.name.size());
  fmt::print("{:<{}}  {:>10}  {:>5}  {:>6}  {:<20}\n", "tenant", width, "guaranteed", "most", "weight", "created");
  for (const KeyEntry& entry : keys.entries) {
    fmt::print("{:<{}}  {:>9g}%  {:>4g}%  {:>6g}  {:<20}{}\n", entry.name, width, entry.share.guaranteed * 100,
               entry.share.most * 100, entry.share.weight, entry.created,
               entry.sees == KeyEntry::Sees::kAll ? "  operator" : "");
  }
}

void remove_key(const KeysOptions& options) {
  const FolderLock lock(folder_of(options.file));
  warn_if_open(options.file);
  KeysFile keys = read_keys(options.file);
  if (std::erase_if(keys.entries, [&](const KeyEntry& entry) { return entry.name == options.name; }) == 0)
    fail_usage(fmt::format("there is no key of '{}'", options.name), options.file, "see kvasir keys list");
  write_keys(options.file, keys);
  fmt::print(stderr, "{}: {} is removed; a running server reads it on SIGHUP\n", options.file, options.name);
}

}  // namespace

double parse_percent(const std::string& text, const std::string& option) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc{} && rest + 1 == end && *rest == '%';
  if (whole && value >= 0 && value <= 100) return value / 100;
  fail_usage(fmt::format("'{}' is not a share", text.substr(0, 40)), option, "write it like 20%");
}

void add_keys_command(CLI::App& app, const std::filesystem::path& standard_file) {
  CLI::App* command = app.add_subcommand("keys", "Say who may use the server");
  command->require_subcommand(1);
  command->footer(
      "A name is a tenant: nobody finds what another has cached. The file holds hashes, and the secret that cached\n"
      "blocks are named with. Shares are of the cache's blocks; the weight is of the work when several wait.");
  auto options = std::make_shared<KeysOptions>();
  options->file = standard_file.string();
  const auto with_file = [&](CLI::App* one) {
    one->add_option("--file", options->file, "Keys file")->capture_default_str();
    return one;
  };
  CLI::App* add = with_file(command->add_subcommand("add", "Make a tenant and print its key, once"));
  add->add_option("name", options->name, "The tenant's name")->required();
  add->add_option("--guaranteed", options->guaranteed, "Share of the cache that others cannot take")
      ->capture_default_str();
  add->add_option("--most", options->most, "Share of the cache it never exceeds")->capture_default_str();
  add->add_option("--weight", options->weight, "Share of the work against others who wait")->capture_default_str();
  add->add_flag("--operator", options->sees_all, "Its /metrics show every tenant's numbers");
  add->callback([options] { add_key(*options); });
  CLI::App* list = with_file(command->add_subcommand("list", "Show the tenants and their shares"));
  list->callback([options] { list_keys(*options); });
  CLI::App* remove = with_file(command->add_subcommand("remove", "Take a tenant's key away"));
  remove->add_option("name", options->name, "The tenant's name")->required();
  remove->callback([options] { remove_key(*options); });
}

}  // namespace kvasir
