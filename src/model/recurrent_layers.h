// What stands in a recurrent layer where others have attention.
#pragma once

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "model/batch.h"
#include "model/decoder_weights.h"
#include "model/decoder_workspace.h"
#include "model/spec.h"

namespace kvasir {

// Each row is projected once: to queries, keys and values, which the convolution reads, and behind them to gates,
// strengths and decays.
class RecurrentLayers {
 public:
  // All of these outlive it.
  RecurrentLayers(const ModelSpec& spec, const DecoderWeights& weights, const Workspace& space, Backend& backend)
      : spec_(spec), weights_(weights), space_(space), backend_(backend) {}

  // out = what the layer makes of x. Each sequence's state is in the group of its policy that has this layer's.
  void run(int layer, const Batch& batch, const KvStorage& storage, Matrix x, Matrix out);

 private:
  // The parts of a row as it is projected.
  struct Parts {
    Matrix mixed;  // [rows][conv_channels]: q, k and v
    Matrix q;
    Matrix k;
    Matrix v;
    Matrix gate;
    Matrix strength;
    Matrix decay;
  };

  static Parts parts_of(const RecurrentSpec& spec, Matrix in);

  const ModelSpec& spec_;
  const DecoderWeights& weights_;
  const Workspace& space_;
  Backend& backend_;
};

}  // namespace kvasir
