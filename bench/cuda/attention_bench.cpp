// Attention on the GPU, decode or prefill: bytes of KV read per second, or FLOPs, for batches, contexts and KV
// formats.
//
//   cuda_attention_bench [decode|prefill|shared] [FORMAT…] [BATCHxCONTEXT…]
//
// `shared`: all sequences share the context; each has 256 tokens of its own after it.
//
// Each launch reads another layer, together several times the size of L2. The launches are one CUDA graph; the median
// of its replays is printed.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/attention/cuda_attention.h"
#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/device_memory.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kDim = 128;
constexpr int kBlock = 16;
constexpr int kLeastLayers = 4;  // so that the time is not that of a graph launch

struct Shape {
  int batch = 1;
  Position context = 0;  // cached tokens, the new ones included
  int rows = 1;          // new tokens of each sequence
  Position shared = 0;   // tokens that all sequences begin with
};

// Numbers of the magnitude of keys and values, in every format: no NaN, no infinity.
std::vector<std::byte> random_block(const KvLayout& layout, std::mt19937& random) {
  std::vector<std::byte> out(static_cast<size_t>(layout.block_bytes()));
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  const auto put16 = [&](std::int64_t offset, std::int64_t count, KvFormat format) {
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = normal(random);
      const std::uint16_t stored = format == KvFormat::kBF16 ? CodecBF16::encode(value) : CodecF16::encode(value);
      std::copy_n(reinterpret_cast<const std::byte*>(&stored), 2, out.data() + offset + i * 2);
    }
  };
  for (int layer = 0; layer < layout.layers; ++layer) {
    for (int head = 0; head < layout.shape.heads; ++head) {
      const auto plain = [](KvFormat format) { return format == KvFormat::kBF16 || format == KvFormat::kF16; };
      if (plain(layout.k_format)) put16(layout.k_offset(layer, head), layout.k_head_bytes / 2, layout.k_format);
      if (plain(layout.v_format)) put16(layout.v_offset(layer, head), layout.v_head_bytes / 2, layout.v_format);
      const auto fp8 = [&](KvFormat format, std::int64_t offset, std::int64_t bytes) {
        if (format != KvFormat::kE4M3 && format != KvFormat::kE5M2) return;
        for (std::int64_t i = 0; i < bytes; ++i) out[static_cast<size_t>(offset + i)] &= std::byte{0xb7};
      };
      fp8(layout.k_format, layout.k_offset(layer, head), layout.k_head_bytes);
      fp8(layout.v_format, layout.v_offset(layer, head), layout.v_head_bytes);
      const auto scales = [&](std::int64_t offset, std::int64_t bytes) {
        const std::uint16_t stored = CodecBF16::encode(0.02F);
        for (std::int64_t i = 0; i < bytes; i += 2) {
          std::copy_n(reinterpret_cast<const std::byte*>(&stored), 2, out.data() + offset + i);
        }
      };
      scales(layout.k_scale_offset(layer, head), layout.k_scale_bytes);
      scales(layout.v_scale_offset(layer, head), layout.v_scale_bytes);
    }
  }
  return out;
}

class Scene {
 public:
  Scene(const Shape& shape, KvFormat format) : shape_(shape) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    KvGroup group{{0}, {kKvHeads, kDim, kDim}, format, format, {}};
    const std::int64_t blocks_of_layer = blocks();
    const double layer_bytes = static_cast<double>(make_layout(group, kBlock).block_bytes() * blocks_of_layer);
    const int layers = std::clamp(static_cast<int>(512e6 / layer_bytes) + 1, kLeastLayers, 32);
    group.layers.resize(static_cast<size_t>(layers));
    std::iota(group.layers.begin(), group.layers.end(), 0);
    layout_ = make_layout(group, kBlock);
    arena_ = DeviceMemory(static_cast<size_t>(layout_.block_bytes() * blocks_of_layer));
    fill(blocks_of_layer);
    const int rows = shape.batch * shape.rows;
    q_ = matrix(q_memory_, rows, kHeads * kDim);
    out_ = matrix(out_memory_, rows, kHeads * kDim);
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> q(static_cast<size_t>(rows) * kHeads * kDim);
    for (float& value : q) value = normal(random);
    check(cudaMemcpy(q_.data, q.data(), q.size() * 4, cudaMemcpyHostToDevice), "queries");
    make_sequences();
  }
  ~Scene() { cudaStreamDestroy(stream_); }

  // Bytes of one layer that must be read: shared blocks once.
  double bytes() const { return static_cast<double>(layout_.layer_bytes()) * static_cast<double>(blocks()); }

  // Seconds of one layer's attention.
  double time() {
    Staging staging(stream_);
    SequenceTables tables(staging);
    CudaAttention attention(stream_, staging, tables);
    tables.begin(groups_, kBlock);
    attend_all(attention);
    check(cudaStreamSynchronize(stream_), "attention");
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capturing");
    attend_all(attention);
    check(cudaStreamEndCapture(stream_, &graph), "capturing");
    check(cudaGraphInstantiate(&replay, graph, 0), "making a graph");
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    std::vector<double> seconds;
    for (int i = 0; i < 13; ++i) {
      cudaEventRecord(begin, stream_);
      check(cudaGraphLaunch(replay, stream_), "replaying");
      cudaEventRecord(end, stream_);
      check(cudaEventSynchronize(end), "replaying");
      float ms = 0;
      cudaEventElapsedTime(&ms, begin, end);
      if (i >= 2) seconds.push_back(ms / 1e3 / layout_.layers);
    }
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::ranges::nth_element(seconds, seconds.begin() + std::ssize(seconds) / 2);
    return seconds[seconds.size() / 2];
  }

 private:
  std::int64_t blocks() const {
    const std::int64_t own = blocks_for(shape_.context, kBlock) - shape_.shared / kBlock;
    return shape_.shared / kBlock + own * shape_.batch;
  }

  static Matrix matrix(DeviceMemory& memory, int rows, int cols) {
    memory = DeviceMemory(static_cast<size_t>(rows) * static_cast<size_t>(cols) * 4);
    return {reinterpret_cast<float*>(memory.data()), rows, cols, cols};
  }

  void fill(std::int64_t blocks) {
    std::mt19937 random(1);
    const std::vector<std::byte> one = random_block(layout_, random);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(blocks, 8); ++i) {
      const std::vector<std::byte> block = i < 4 ? random_block(layout_, random) : one;
      check(cudaMemcpy(arena_.data() + i * layout_.block_bytes(), block.data(), block.size(), cudaMemcpyHostToDevice),
            "blocks");
    }
    for (std::int64_t filled = 8; filled < blocks; filled *= 2) {  // doubles what is filled
      const auto count = static_cast<size_t>(std::min(filled, blocks - filled) * layout_.block_bytes());
      check(
          cudaMemcpy(arena_.data() + filled * layout_.block_bytes(), arena_.data(), count, cudaMemcpyDeviceToDevice),
          "blocks");
    }
  }

  // Block tables are random, as in a cache that was used for long.
  void make_sequences() {
    std::vector<BlockId> order(static_cast<size_t>(blocks()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(2));
    size_t next = static_cast<size_t>(shape_.shared / kBlock);
    groups_.resize(1);
    tables_.reserve(static_cast<size_t>(shape_.batch));
    for (int i = 0; i < shape_.batch; ++i) {
      std::vector<BlockId>& table = tables_.emplace_back(order.begin(), order.begin() + shape_.shared / kBlock);
      while (std::ssize(table) < blocks_for(shape_.context, kBlock)) table.push_back(order[next++]);
      groups_[0].push_back({table.data(), shape_.context - shape_.rows, i * shape_.rows, shape_.rows});
    }
  }

  void attend_all(CudaAttention& attention) {
    for (int layer = 0; layer < layout_.layers; ++layer) {
      KvView view{arena_.data(), layout_, {}, layer};
      attention.attend({q_, view, groups_[0], kHeads, {.scale = 0.088388F}, nullptr}, out_);
    }
  }

  Shape shape_;
  cudaStream_t stream_ = nullptr;
  KvLayout layout_;
  DeviceMemory arena_, q_memory_, out_memory_;
  Matrix q_, out_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<std::vector<SequenceView>> groups_;
};

void decode(const std::vector<KvFormat>& formats, const std::vector<Shape>& shapes) {
  fmt::print("{:>8} {:>6} {:>8} {:>12} {:>10} {:>8}\n", "format", "batch", "context", "us a layer", "us a token",
             "TB/s");
  for (const KvFormat format : formats) {
    for (const Shape& shape : shapes) {
      Scene scene(shape, format);
      const double seconds = scene.time();
      fmt::print("{:>8} {:>6} {:>8} {:>12.1f} {:>10.3f} {:>8.2f}\n", format_name(format), shape.batch, shape.context,
                 seconds * 1e6, seconds * 1e6 / shape.batch, scene.bytes() / seconds / 1e12);
    }
  }
}

void prefill(const std::vector<KvFormat>& formats, const std::vector<Shape>& shapes) {
  fmt::print("{:>8} {:>6} {:>8} {:>12} {:>10}\n", "format", "batch", "tokens", "us a layer", "TFLOP/s");
  for (const KvFormat format : formats) {
    for (const Shape& shape : shapes) {
      const auto tokens = static_cast<int>(shape.context);
      Scene scene({shape.batch, tokens, tokens}, format);
      const double seconds = scene.time();
      const double operations = 2.0 * shape.batch * tokens * tokens * kHeads * kDim;  // the causal half of two GEMMs
      fmt::print("{:>8} {:>6} {:>8} {:>12.1f} {:>10.0f}\n", format_name(format), shape.batch, tokens, seconds * 1e6,
                 operations / seconds / 1e12);
    }
  }
}

void shared(const std::vector<KvFormat>& formats, const std::vector<Shape>& shapes) {
  constexpr Position kOwn = 256;
  fmt::print("{:>8} {:>6} {:>8} {:>12} {:>12} {:>8}\n", "format", "batch", "shared", "us sharing", "us without",
             "times");
  for (const KvFormat format : formats) {
    for (const Shape& shape : shapes) {
      const double with = Scene({shape.batch, shape.context + kOwn, 1, shape.context}, format).time();
      const double without = Scene({shape.batch, shape.context + kOwn, 1, 0}, format).time();
      fmt::print("{:>8} {:>6} {:>8} {:>12.1f} {:>12.1f} {:>8.1f}\n", format_name(format), shape.batch, shape.context,
                 with * 1e6, without * 1e6, without / with);
    }
  }
}

}  // namespace

int run(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "decode" : arguments[0];
  std::vector<KvFormat> formats;
  std::vector<Shape> shapes;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const size_t cross = arguments[i].find('x');
    if (cross == std::string::npos) {
      formats.push_back(parse_kv_format(arguments[i]));
    } else {
      shapes.push_back({std::stoi(arguments[i]), std::stoi(arguments[i].substr(cross + 1))});
    }
  }
  if (shapes.empty() && what == "prefill") shapes = {{1, 2048}, {1, 8192}, {4, 512}};
  if (shapes.empty() && what == "shared") shapes = {{128, 32768}};
  if (shapes.empty()) shapes = {{1, 8192}, {8, 8192}, {32, 4096}, {64, 8192}, {128, 2048}};
  if (formats.empty()) formats = {KvFormat::kBF16, KvFormat::kE4M3, KvFormat::kInt8, KvFormat::kInt4};
  if (what == "prefill") {
    prefill(formats, shapes);
  } else if (what == "shared") {
    shared(formats, shapes);
  } else {
    decode(formats, shapes);
  }
  return 0;
}

}  // namespace kvasir::cuda

int main(int count, char** values) {
  try {
    return kvasir::cuda::run({values + 1, values + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
