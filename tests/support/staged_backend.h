// A backend that takes rows in the host's memory, for one whose memory is elsewhere: what an op reads is brought
// there before it, and what it wrote is fetched behind it. What comes from allocate(), a cache, stays where it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "backend/forwarding_backend.h"

namespace kvasir::testing {

class StagedBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) override {
    Stage stage(*this);
    ForwardingBackend::embed(table, tokens, stage.bring(out));
  }
  void rms_norm(Matrix x, const float* weight, float eps, Matrix out) override {
    Stage stage(*this);
    ForwardingBackend::rms_norm(stage.bring(x), stage.bring(weight, x.cols), eps, stage.bring(out));
  }
  void layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) override {
    Stage stage(*this);
    ForwardingBackend::layer_norm(stage.bring(x), stage.bring(weight, x.cols), stage.bring(bias, x.cols), eps,
                                  stage.bring(out));
  }
  void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) override {
    Stage stage(*this);
    ForwardingBackend::matmul(weight, stage.bring(x), stage.bring(bias, out.cols), stage.bring(out));
  }
  void rope(Matrix x, int heads, const RopeTable& table) override {
    Stage stage(*this);
    ForwardingBackend::rope(stage.bring(x), heads, stage.bring(table, x.rows));
  }
  void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
               Matrix out) override {
    Stage stage(*this);
    HeadMatrices matrices = by;
    matrices.at =
        stage.bring(by.at, (by.heads - 1) * by.head_stride + static_cast<std::int64_t>(by.inputs) * by.stride);
    ForwardingBackend::project(stage.bring(x), heads, matrices, sequences, stage.bring(out));
  }
  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override {
    Stage stage(*this);
    ForwardingBackend::kv_write(stage.bring(k), stage.bring(v), view, sequences);
  }
  void attention(const AttentionBatch& batch, Matrix out) override {
    Stage stage(*this);
    AttentionBatch brought = batch;
    brought.q = stage.bring(batch.q);
    brought.states = stage.bring(batch.states, static_cast<std::int64_t>(batch.q.rows) * batch.heads);
    ForwardingBackend::attention(brought, stage.bring(out));
  }
  void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) override {
    Stage stage(*this);
    ForwardingBackend::merge_attention(stage.bring(into), stage.bring(from), sequences);
  }
  void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) override {
    Stage stage(*this);
    AttentionBatch brought = batch;
    brought.q = stage.bring(batch.q);
    AttentionWatch watching = watch;
    watching.scores = stage.bring(watch.scores, watch.stride * batch.view.layout.shape.heads);
    ForwardingBackend::watch_attention(brought, watching);
  }
  void swiglu(Matrix gate, Matrix up, Matrix out) override {
    Stage stage(*this);
    ForwardingBackend::swiglu(stage.bring(gate), stage.bring(up), stage.bring(out));
  }
  void add(Matrix x, Matrix y) override {
    Stage stage(*this);
    ForwardingBackend::add(stage.bring(x), stage.bring(y));
  }
  void add_rms_norm(Matrix x, Matrix y, const NormRule& norm, Matrix out) override {
    Stage stage(*this);
    const NormRule brought{stage.bring(norm.weight, x.cols), norm.eps};
    ForwardingBackend::add_rms_norm(stage.bring(x), stage.bring(y), brought, stage.bring(out));
  }
  void gated_matmul(const Weight& weight, Matrix gate, Matrix up, const float* bias, Matrix out) override {
    Stage stage(*this);
    ForwardingBackend::gated_matmul(weight, stage.bring(gate), stage.bring(up), stage.bring(bias, out.cols),
                                    stage.bring(out));
  }
  void norm_matmul(const NormedRows& rows, const Weight& weight, const float* bias, Matrix out) override {
    Stage stage(*this);
    ForwardingBackend::norm_matmul(stage.bring(rows), weight, stage.bring(bias, out.cols), stage.bring(out));
  }
  void feed_forward(const NormedRows& rows, const GatedLayer& layer, Matrix gate_up, Matrix out) override {
    Stage stage(*this);
    const GatedLayer brought{layer.gate_up, stage.bring(layer.gate_up_bias, gate_up.cols), layer.down,
                             stage.bring(layer.down_bias, out.cols)};
    ForwardingBackend::feed_forward(stage.bring(rows), brought, stage.bring(gate_up), stage.bring(out));
  }
  void rope_kv_write(const UnturnedRows& rows, const KvView& view, std::span<const SequenceView> sequences) override {
    Stage stage(*this);
    ForwardingBackend::rope_kv_write({stage.bring(rows.q), stage.bring(rows.k), stage.bring(rows.v), rows.heads,
                                      rows.kv_heads, stage.bring(rows.table, rows.q.rows)},
                                     view, sequences);
  }
  DrawTicket draw(Matrix logits, std::span<const DrawRule> rules) override {
    Stage stage(*this);
    return ForwardingBackend::draw(stage.bring(logits), rules);
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
    T* bring(T* from, std::int64_t count) {
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
      return {bring(x.data, (x.rows - 1) * x.stride + x.cols), x.rows, x.cols, x.stride};
    }
    RopeTable bring(const RopeTable& table, int rows) {
      std::int64_t end = 0;  // of the angles
      for (int r = 0; r < rows; ++r) end = std::max(end, table.first(r) + table.pairs);
      return {bring(table.cos, end), bring(table.sin, end), table.pairs, bring(table.places, rows)};
    }
    NormedRows bring(const NormedRows& rows) {
      const NormRule norm{bring(rows.norm.weight, rows.x.cols), rows.norm.eps};
      return {bring(rows.x), bring(rows.y), norm, bring(rows.normed)};
    }
    AttentionPart bring(const AttentionPart& part) {
      return {bring(part.out), bring(part.states, static_cast<std::int64_t>(part.out.rows) * part.heads), part.heads};
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
