// A backend that takes rows in the host's memory, for one whose memory is elsewhere: what an op reads is brought
// there before it, and what it wrote is fetched behind it. What comes from allocate(), a cache, stays where it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "backend/forwarding_backend.h"
#include "support/op_memory.h"

namespace kvasir::testing {

class StagedBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  void run(const Op& op) override {
    // Blocks that move, and the caches' blocks that are copied, lie in the backend's memory already.
    if (std::holds_alternative<KvMoveOp>(op) || std::holds_alternative<CopyOp>(op)) return ForwardingBackend::run(op);
    Stage stage(*this);
    std::visit([&](const auto& one) { ForwardingBackend::run(OpMemory<Stage>(stage)(one)); }, op);
  }
  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules) override {
    Stage stage(*this);
    return ForwardingBackend::sample(stage.bring(logits), rules);
  }

 private:
  // One op's. What may be written goes back when the op is done.
  class Stage {
   public:
    explicit Stage(StagedBackend& backend) : backend_(backend) {}
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;
    ~Stage() {
      for (const Place& place : places_) {
        if (place.back != nullptr) backend_.download({place.back, place.bytes}, place.memory.as<std::byte>());
      }
    }

    template <class T>
    T* operator()(T* from, std::int64_t count) {
      if (from == nullptr || count == 0) return nullptr;
      const auto bytes = static_cast<size_t>(count) * sizeof(T);
      Place& place = places_.emplace_back();
      place.memory = backend_.allocate(bytes);
      place.bytes = bytes;
      if constexpr (!std::is_const_v<T>) place.back = reinterpret_cast<std::byte*>(from);
      backend_.upload(place.memory.template as<std::byte>(),
                      std::as_bytes(std::span(from, static_cast<size_t>(count))));
      return place.memory.template as<T>();
    }
    Matrix bring(Matrix x) {
      if (x.rows == 0) return x;
      return {(*this)(x.data, (x.rows - 1) * x.stride + x.cols), x.rows, x.cols, x.stride};
    }
    std::byte* arena(std::byte* cache) const { return cache; }
    std::int64_t angles(const RopeTable& table, int rows) const {
      std::int64_t end = 0;
      for (int r = 0; r < rows; ++r) end = std::max(end, table.first(r) + table.pairs);
      return end;
    }

   private:
    struct Place {
      Buffer memory;
      size_t bytes = 0;
      std::byte* back = nullptr;
    };
    StagedBackend& backend_;
    std::deque<Place> places_;
  };
};

}  // namespace kvasir::testing
