#include "model/gguf/gguf_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "model/gguf/gguf_file.h"

namespace kvasir {
namespace {

constexpr std::uint64_t kChunk = 16 << 20;  // bytes of rows that are made at a time

std::uint64_t aligned(std::uint64_t at) { return (at + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment; }

// The bytes before the tensors.
class Head {
 public:
  template <class T>
  void number(T value) {
    const auto* from = reinterpret_cast<const char*>(&value);
    bytes_.append(from, sizeof value);
  }
  void string(std::string_view text) {
    number<std::uint64_t>(text.size());
    bytes_ += text;
  }
  void type(GgufType type) { number(static_cast<std::uint32_t>(type)); }
  void pad() { bytes_.resize(static_cast<size_t>(aligned(bytes_.size()))); }

  void value(const GgufOutValue& value) {
    std::visit([this](const auto& v) { put(v); }, value);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void put(bool value) {
    type(GgufType::kBool);
    number<std::uint8_t>(value ? 1 : 0);
  }
  void put(std::uint32_t value) {
    type(GgufType::kU32);
    number(value);
  }
  void put(float value) {
    type(GgufType::kF32);
    number(value);
  }
  void put(const std::string& value) {
    type(GgufType::kString);
    string(value);
  }
  void put(const std::vector<std::string>& values) {
    array(GgufType::kString, values.size());
    for (const std::string& one : values) string(one);
  }
  void put(const std::vector<std::int32_t>& values) {
    array(GgufType::kI32, values.size());
    for (const std::int32_t one : values) number(one);
  }
  void put(const std::vector<float>& values) {
    array(GgufType::kF32, values.size());
    for (const float one : values) number(one);
  }
  void put(const std::vector<std::uint8_t>& values) {
    array(GgufType::kU8, values.size());
    for (const std::uint8_t one : values) number(one);
  }
  void put(const GgufBools& bools) {
    array(GgufType::kBool, bools.values.size());
    for (const std::uint8_t one : bools.values) number(one);
  }
  void array(GgufType element, std::uint64_t count) {
    type(GgufType::kArray);
    type(element);
    number(count);
  }

  std::string bytes_;
};

std::string head_of(std::span<const GgufOutKey> metadata, std::span<const GgufOutTensor> tensors) {
  Head head;
  head.number(kGgufMagic);
  head.number<std::uint32_t>(3);
  head.number<std::uint64_t>(tensors.size());
  head.number<std::uint64_t>(metadata.size());
  for (const GgufOutKey& entry : metadata) {
    head.string(entry.key);
    head.value(entry.value);
  }
  std::uint64_t at = 0;
  for (const GgufOutTensor& tensor : tensors) {
    CHECK(!tensor.shape.empty() && tensor.shape.back() % block_elements(tensor.type) == 0);
    head.string(tensor.name);
    head.number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) {
      head.number(static_cast<std::uint64_t>(*extent));
    }
    head.number(gguf_number_of(tensor.type));
    head.number(at);
    at = aligned(at + tensor.bytes());
  }
  head.pad();
  return head.bytes();
}

// A file that is there under its own name only after finish().
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path)
      : path_(path), beside_(fmt::format("{}.{}.tmp", path.string(), ::getpid())) {
    fd_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("created");
  }
  ~NewFile() {
    ::close(fd_);
    ::unlink(beside_.c_str());  // after finish() it has another name
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const char* data, std::uint64_t bytes) {
    while (bytes > 0) {
      const ssize_t wrote = ::write(fd_, data, static_cast<size_t>(bytes));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) fail("written");
      data += wrote;
      bytes -= static_cast<std::uint64_t>(wrote);
    }
  }

  void finish() {
    if (::fsync(fd_) != 0) fail("synced");
    if (::rename(beside_.c_str(), path_.c_str()) != 0) fail("renamed");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    fail_system(fmt::format("cannot be {}: {}", what, std::strerror(errno)), path_.string(),
                "check the path and the room on the disk");
  }

  std::filesystem::path path_;
  std::filesystem::path beside_;
  int fd_ = -1;
};

}  // namespace

std::int64_t GgufOutTensor::rows() const {
  std::int64_t count = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
  return count;
}

void write_gguf(const std::filesystem::path& path, std::span<const GgufOutKey> metadata,
                std::span<const GgufOutTensor> tensors, const GgufWriteOptions& options) {
  if (options.existing == GgufWriteOptions::Existing::kRefuse && std::filesystem::exists(path)) {
    fail_usage("the file is already there", path.string(), "choose another name, or use --force to replace it");
  }
  std::uint64_t all = 0;
  for (const GgufOutTensor& tensor : tensors) all += tensor.bytes();
  const std::string head = head_of(metadata, tensors);
  NewFile file(path);
  file.write(head.data(), head.size());
  ThreadPool pool(std::max(options.threads, 1));
  std::vector<std::byte> chunk;
  std::uint64_t done = 0;
  for (const GgufOutTensor& tensor : tensors) {
    if (tensor.open) tensor.open();
    const std::uint64_t row = row_bytes(tensor.type, tensor.shape.back());
    const auto at_once = static_cast<std::int64_t>(std::max<std::uint64_t>(kChunk / row, 1));
    for (std::int64_t first = 0; first < tensor.rows(); first += at_once) {
      const std::int64_t rows = std::min(at_once, tensor.rows() - first);
      chunk.resize(static_cast<size_t>(rows) * static_cast<size_t>(row));
      std::atomic<bool> fits = true;
      pool.parallel_for(rows, [&](std::int64_t r, int) {
        std::byte* to = chunk.data() + static_cast<size_t>(r) * static_cast<size_t>(row);
        if (!tensor.make_row(first + r, to)) fits = false;
      });
      if (!fits) {
        fail_input(fmt::format("tensor '{}' has numbers that {} cannot hold", tensor.name, name_of(tensor.type)),
                   path.string(), "use bf16 or f32");
      }
      file.write(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      done += chunk.size();
      if (options.progress) options.progress(done, all);
    }
    if (tensor.close) tensor.close();
    const std::string padding(static_cast<size_t>(aligned(tensor.bytes()) - tensor.bytes()), '\0');
    file.write(padding.data(), padding.size());
  }
  file.finish();
}

}  // namespace kvasir
