// What an encoder-decoder answers to: the encoder reads it whole, and each layer of the decoder that looks at it has
// its keys and values made of the encoder's rows and written to the cache, once.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "model/decoder_weights.h"
#include "model/decoder_workspace.h"
#include "model/model.h"
#include "model/scratch_rows.h"

namespace kvasir {

class SourceReader {
 public:
  // Of the decoder, whose steps have so many rows. All but the spec's and the encoder's own outlive it.
  struct Parts {
    const ModelSpec& spec;
    const DecoderWeights& weights;
    const Workspace& space;
    Backend& backend;
    int max_rows = 0;
  };
  SourceReader(const Parts& parts, std::unique_ptr<Model> encoder);

  int longest() const { return encoder_->max_rows(); }  // source, in tokens
  const Model& encoder() const { return *encoder_; }

  // All of the batch's sources; rows of one do not depend on the others. REQUIRES: none is longer than longest().
  void run(const Batch& batch, const KvStorage& storage);

 private:
  using Sources = std::span<const Batch::Source>;

  size_t fit(Sources sources) const;
  Matrix encode(Sources sources);
  void write(Sources sources, Matrix rows, const KvStorage& storage);
  void write_layers(Matrix rows, const KvStorage& storage);
  void view_rows(Sources sources, int first, int end);

  Parts p_;
  std::unique_ptr<Model> encoder_;
  std::optional<ScratchRows> scratch_;  // of the encoder; made when it is first needed
  Batch read_;
  std::vector<std::vector<SequenceView>> views_;  // [cache group]: where rows that are being written belong
};

}  // namespace kvasir
