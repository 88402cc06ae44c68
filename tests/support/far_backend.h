// A backend whose memory the host cannot read or write, as a GPU's: a host backend that works on the same bytes at
// other addresses. Whoever forgets to download dies of it, and whoever gives an op memory of the host is told.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/forwarding_backend.h"
#include "support/op_memory.h"

namespace kvasir::testing {

// Every allocation is there twice: without any access, where it is said to be, and elsewhere, for the ops.
class FarMemory {
 public:
  static Buffer allocate(size_t bytes) {
    const size_t size = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
    const auto take = [size](int access) {
      void* memory = ::mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw std::runtime_error("no memory");
      return static_cast<std::byte*>(memory);
    };
    std::byte* far = take(PROT_NONE);
    std::byte* near = take(PROT_READ | PROT_WRITE);
    const std::lock_guard lock(mutex());
    ranges()[far] = {size, near};
    return {far, bytes, free};
  }

  // Where an op finds what lies at `far`.
  template <class T>
  static T* near(T* far) {
    if (far == nullptr) return nullptr;
    const auto* at = reinterpret_cast<const std::byte*>(far);
    const std::lock_guard lock(mutex());
    auto range = ranges().upper_bound(at);
    if (range == ranges().begin() || at >= (--range)->first + range->second.bytes) {
      throw std::logic_error("an op was given memory that is not the backend's");
    }
    return reinterpret_cast<T*>(range->second.near + (at - range->first));
  }

 private:
  static constexpr size_t kPage = 4096;

  struct Range {
    size_t bytes = 0;
    std::byte* near = nullptr;
  };

  static void free(void* far, size_t) {
    const std::lock_guard lock(mutex());
    const auto range = ranges().find(static_cast<std::byte*>(far));
    ::munmap(far, range->second.bytes);
    ::munmap(range->second.near, range->second.bytes);
    ranges().erase(range);
  }
  // A buffer is given back without a word on whose it was.
  static std::map<const std::byte*, Range>& ranges() {
    static std::map<const std::byte*, Range> all;
    return all;
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
};

class FarBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::string description() const override { return ForwardingBackend::description() + ", far"; }
  Buffer allocate(size_t bytes) override { return FarMemory::allocate(bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { ForwardingBackend::upload(near(to), from); }
  void download(std::span<std::byte> to, const std::byte* from) override {
    ForwardingBackend::download(to, near(from));
  }
  const std::int32_t* upload_rope_rows(std::span<const std::int32_t> rope_rows) override {
    const Buffer& sent = rope_rows_.emplace_back(allocate(rope_rows.size_bytes()));
    upload(sent.as<std::byte>(), std::as_bytes(rope_rows));
    return sent.as<std::int32_t>();
  }
  BatchId end_batch() override {
    ForwardingBackend::end_batch();
    rope_rows_.clear();
    return kNoBatch;
  }
  void save(std::span<const HostCopy> pieces) override { Backend::save(pieces); }
  void restore(std::span<const HostCopy> pieces) override { Backend::restore(pieces); }

  void run(const Op& op) override {
    Near to_near;
    std::visit([&](const auto& one) { ForwardingBackend::run(OpMemory<Near>(to_near)(one)); }, op);
  }
  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules) override {
    return ForwardingBackend::sample(near(logits), rules);
  }

 private:
  template <class T>
  static T* near(T* far) {
    return FarMemory::near(far);
  }
  static Matrix near(Matrix x) {
    x.data = near(x.data);
    return x;
  }

  struct Near {
    template <class T>
    T* operator()(T* far, std::int64_t /*count*/) const {
      return near(far);
    }
    std::byte* arena(std::byte* far) const { return near(far); }
    std::int64_t angles(const RopeTable& /*table*/, int /*rows*/) const { return 0; }
  };

  std::vector<Buffer> rope_rows_;  // of the batch
};

}  // namespace kvasir::testing
