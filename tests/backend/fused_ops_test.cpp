// Ops that are two in one: the bits of the two, on memory of the backend's own.
#include "backend/backends.h"
#include "backend/device_rows.h"
#include "backend/kv_storage.h"
#include "backend/rope.h"

namespace kvasir::testing {
namespace {

class FusedTest : public ::testing::TestWithParam<Form> {
 protected:
  DeviceRows rows(int count, int width, std::uint64_t seed = 0) {
    return {*backend_, OwnedMatrix(count, width, seed)};
  }

  std::unique_ptr<Backend> backend_ = make_plain(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Forms, FusedTest, ::testing::ValuesIn(all_forms()), form_name);

constexpr float kEps = 1e-5F;

TEST_P(FusedTest, SumNormAndTheProductBehindIt) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32, DType::kQ8_0}) {
    for (const int width : type == DType::kBF16 ? std::vector{32, 4096, 8224} : std::vector{32, 320}) {
      const OwnedWeight host(48, width, type, 4);
      const auto weight = backend_->load({&host.view, 1});
      const DeviceRows norm = rows(1, width, 3);
      const NormRule rule{norm.view().data, kEps};
      for (const int count : {1, 9}) {
        const DeviceRows x = rows(count, width, 1);
        const DeviceRows y = rows(count, width, 2);
        const DeviceRows normed = rows(count, width);
        const DeviceRows out = rows(count, 48);
        backend_->run(AddOp{x.view(), y.view()});
        backend_->run(NormOp{x.view(), {rule.weight, kEps}, normed.view()});
        backend_->run(MatmulOp{weight.get(), normed.view(), nullptr, out.view()});
        const std::vector<float> product = out.values();
        for (int again = 0; again < 2; ++again) {  // behind a product that is known
          const DeviceRows x2 = rows(count, width, 1);
          const DeviceRows normed2 = rows(count, width);
          const DeviceRows out2 = rows(count, 48);
          backend_->run(AddNormOp{x2.view(), y.view(), rule, normed2.view()});
          backend_->run(MatmulOp{weight.get(), normed2.view(), nullptr, out2.view()});
          EXPECT_EQ(x2.values(), x.values()) << name_of(type) << width;
          EXPECT_EQ(normed2.values(), normed.values()) << name_of(type) << width;
          EXPECT_EQ(out2.values(), product) << name_of(type) << width;
          // Whoever writes there in between is heard.
          backend_->run(AddNormOp{x2.view(), y.view(), rule, normed2.view()});
          backend_->run(AddOp{normed2.view(), y.view()});
          backend_->run(MatmulOp{weight.get(), normed2.view(), nullptr, out2.view()});
          EXPECT_NE(out2.values(), product) << name_of(type) << width;
          const DeviceRows copy(*backend_, [&] {
            OwnedMatrix now(count, width);
            now.values = normed2.values();
            now.view.data = now.values.data();
            return now;
          }());
          const DeviceRows fresh = rows(count, 48);
          backend_->run(MatmulOp{weight.get(), copy.view(), nullptr, fresh.view()});
          EXPECT_EQ(out2.values(), fresh.values()) << name_of(type) << width;
        }
      }
    }
  }
}

// Gates and ups are numbers that no backend has to round.
TEST_P(FusedTest, GateAndTheProductBehindIt) {
  const auto numbers = [&](int count, int width, std::uint64_t seed) {
    OwnedMatrix out(count, width, seed);
    for (float& value : out.values) value = CodecBF16::decode(CodecBF16::encode(value));
    return DeviceRows(*backend_, out);
  };
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32, DType::kQ8_0}) {
    for (const int width : {32, 544}) {
      const OwnedWeight host(40, width, type, 4);
      const auto weight = backend_->load({&host.view, 1});
      const DeviceRows bias = rows(1, 40, 9);
      for (const int count : {1, 9, 65}) {
        const DeviceRows both = numbers(count, 2 * width, 1);  // side by side, as a model has them
        const DeviceRows again = numbers(count, 2 * width, 1);
        const auto gate = [&](const DeviceRows& of) { return of.view().columns(0, width); };
        const auto up = [&](const DeviceRows& of) { return of.view().columns(width, width); };
        const DeviceRows out = rows(count, 40);
        const DeviceRows out2 = rows(count, 40);
        backend_->run(SwigluOp{gate(both), up(both), gate(both)});
        backend_->run(MatmulOp{weight.get(), gate(both), bias.view().data, out.view()});
        backend_->run(GatedMatmulOp{weight.get(), gate(again), up(again), bias.view().data, out2.view()});
        if (on_gpu(GetParam()) && type == DType::kBF16) {  // its silu may be another bf16, once in thousands
          EXPECT_LT(relative_error(out2.values(), out.values()), 1e-3) << width << " " << count;
          continue;
        }
        EXPECT_EQ(out2.values(), out.values()) << name_of(type) << width << " " << count;
      }
    }
  }
}

// A norm, and one product or two, in one or in several ops; of a row alone or among others.
TEST_P(FusedTest, AllOfALayerBehindItsNorm) {
  constexpr int kHidden = 48;
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32, DType::kQ8_0}) {
    for (const int ffn : type == DType::kQ8_0 ? std::vector{32, 544} : std::vector{20, 36, 544, 2064}) {
      const int width = type == DType::kQ8_0 ? 64 : 60;
      const OwnedWeight up_host(2 * ffn, width, type, 4);
      const OwnedWeight down_host(kHidden, ffn, type, 5);
      const auto up = backend_->load({&up_host.view, 1});
      const auto down = backend_->load({&down_host.view, 1});
      const DeviceRows norm = rows(1, width, 3);
      const DeviceRows up_bias = rows(1, 2 * ffn, 6);
      const DeviceRows down_bias = rows(1, kHidden, 7);
      for (const bool biased : {false, true}) {
        const GatedMlp layer{up.get(), biased ? up_bias.view().data : nullptr, down.get(), down_bias.view().data};
        std::vector<float> first;  // row, of one row
        // Of 2,100 a GPU multiplies some and then the others.
        const int many = type == DType::kBF16 && ffn == 36 && !biased ? 2100 : 200;
        for (const int count : {1, 9, 65, many}) {
          const auto what = ::testing::Message() << name_of(type) << " " << ffn << " " << count << " " << biased;
          const DeviceRows y = rows(count, width, 2);
          const auto run = [&](const auto& work) {
            const DeviceRows x = rows(count, width, 1);
            const DeviceRows normed = rows(count, width);
            const DeviceRows between = rows(count, 2 * ffn, 8);
            const DeviceRows out = rows(count, kHidden);
            work(NormedRows{x.view(), y.view(), {norm.view().data, kEps}, normed.view()}, between.view(), out.view());
            return std::pair(x.values(), out.values());
          };
          const auto apart = run([&](const NormedRows& of, Matrix between, Matrix out) {
            backend_->run(AddNormOp{of.x, of.y, of.norm, of.normed});
            backend_->run(MatmulOp{up.get(), of.normed, layer.gate_up_bias, between});
            backend_->run(
                GatedMatmulOp{down.get(), between.columns(0, ffn), between.columns(ffn, ffn), layer.down_bias, out});
          });
          const auto in_two = run([&](const NormedRows& of, Matrix between, Matrix out) {
            backend_->run(NormMatmulOp{of, up.get(), layer.gate_up_bias, between});
            backend_->run(
                GatedMatmulOp{down.get(), between.columns(0, ffn), between.columns(ffn, ffn), layer.down_bias, out});
          });
          const auto in_one = run([&](const NormedRows& of, Matrix between, Matrix out) {
            backend_->run(FeedForwardOp{of, layer, between, out});
          });
          EXPECT_EQ(in_two, apart) << what;
          EXPECT_EQ(in_one, apart) << what;
          const std::vector<float> row(apart.second.begin(), apart.second.begin() + kHidden);
          if (count == 1) first = row;
          EXPECT_EQ(row, first) << what;
        }
      }
    }
  }
}

std::vector<float> layer_outputs(Backend& backend, DType type, int ffn, int count) {
  constexpr int kWidth = 64;
  constexpr int kHidden = 48;
  const OwnedWeight up_host(2 * ffn, kWidth, type, 4);
  const OwnedWeight down_host(kHidden, ffn, type, 5);
  const auto up = backend.load({&up_host.view, 1});
  const auto down = backend.load({&down_host.view, 1});
  const auto rows = [&](int width, std::uint64_t seed) {
    return DeviceRows(backend, OwnedMatrix(count, width, seed));
  };
  const DeviceRows norm(backend, OwnedMatrix(1, kWidth, 3));
  const DeviceRows x = rows(kWidth, 1);
  const DeviceRows y = rows(kWidth, 2);
  const DeviceRows normed = rows(kWidth, 0);
  const DeviceRows between = rows(2 * ffn, 0);
  const DeviceRows out = rows(kHidden, 0);
  backend.run(FeedForwardOp{{x.view(), y.view(), {norm.view().data, kEps}, normed.view()},
                            {up.get(), nullptr, down.get(), nullptr},
                            between.view(),
                            out.view()});
  return out.values();
}

// Rows that backends round may become other numbers of 16 bits, or 8, where float32 differs a little; a GPU rounds
// gates as well, and rows beside quantized weights to f16 only.
TEST_P(FusedTest, ALayerBehindItsNormEqualsRef) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32, DType::kQ8_0}) {
    const bool gpu = on_gpu(GetParam());
    const bool quantized = type == DType::kQ8_0;
    const auto ref = make_ref_backend(gpu && quantized ? ActivationPrecision::kF32 : ActivationPrecision::kAsWeights);
    const double half = 0x1p-11;  // what f16 is off by: of both products their rows, and weights
    const double allowed = quantized ? (gpu ? 4 * half : 2e-2) : gpu && type == DType::kBF16 ? 1e-2 : 1e-3;
    for (const int ffn : {32, 544}) {
      for (const int count : {1, 70}) {
        EXPECT_LT(relative_error(layer_outputs(*backend_, type, ffn, count), layer_outputs(*ref, type, ffn, count)),
                  allowed)
            << name_of(type) << " " << ffn << " " << count;
      }
    }
  }
}

// Single tokens of many sequences, and `rows` of some; a GPU turns many rows otherwise than few.
struct TurnedRows {
  KvFormat format;
  int dim;
  int rows;
};

TEST_P(FusedTest, RotationsAndWhatIsCached) {
  constexpr int kHeads = 6;
  constexpr int kKvHeads = 2;
  constexpr int kSequences = 70;
  std::vector<TurnedRows> cases;
  for (const KvFormat format : kAllKvFormats) {
    cases.push_back({format, 64, 4});
    cases.push_back({format, 128, 39});
  }
  for (const TurnedRows& of : cases) {
    const KvFormat format = of.format;
    const int dim = of.dim;
    const KvGroup group{{0, 1}, {kKvHeads, dim, dim}, format, format, {}};
    std::vector<std::vector<BlockId>> tables(kSequences);
    std::vector<SequenceView> sequences;
    std::vector<Position> positions;
    BlockId blocks = 0;
    for (int i = 0; i < kSequences; ++i) {
      const Position start = i * 5 % 37;
      const int count = i % 7 == 3 ? of.rows : 1;
      for (Position p = 0; p < start + count; p += 16) tables[static_cast<size_t>(i)].push_back(blocks++);
      sequences.push_back({tables[static_cast<size_t>(i)].data(), start, static_cast<int>(positions.size()), count});
      for (int r = 0; r < count; ++r) positions.push_back(start + r);
    }
    const auto count = static_cast<int>(positions.size());
    OwnedMatrix cos(count, dim / 2);
    OwnedMatrix sin(count, dim / 2);
    std::vector<double> frequencies;
    for (int i = 0; i < dim / 2; ++i) frequencies.push_back(1.0 / (i + 1));
    rope_angles(positions, frequencies, cos.values.data(), sin.values.data());
    const DeviceRows device_cos(*backend_, cos);
    const DeviceRows device_sin(*backend_, sin);
    const RopeTable plain{device_cos.view().data, device_sin.view().data, dim / 2};
    // The same angles the other way round, and each row told where its own are.
    OwnedMatrix cos_back(count, dim / 2);
    OwnedMatrix sin_back(count, dim / 2);
    std::vector<std::int32_t> places;
    for (int r = 0; r < count; ++r) {
      places.push_back(count - 1 - r);
      std::copy_n(cos.view.row(r), dim / 2, cos_back.view.row(places.back()));
      std::copy_n(sin.view.row(r), dim / 2, sin_back.view.row(places.back()));
    }
    const DeviceRows device_cos_back(*backend_, cos_back);
    const DeviceRows device_sin_back(*backend_, sin_back);
    const Buffer device_places = backend_->allocate(places.size() * sizeof(places[0]));
    backend_->upload(device_places.as<std::byte>(), std::as_bytes(std::span(places)));
    const RopeTable placed{device_cos_back.view().data, device_sin_back.view().data, dim / 2,
                           device_places.as<std::int32_t>()};
    const std::int64_t bytes = make_layout(group, 16).block_bytes();
    const auto run = [&](const RopeTable& table, auto&& write) {
      KvStorage storage(*backend_, KvStorage::Pages{blocks, bytes}, 16);
      storage.set_group(0, group);
      const DeviceRows all = rows(count, (kHeads + 2 * kKvHeads) * dim, 5);
      const Matrix q = all.view().columns(0, kHeads * dim);
      const Matrix k = all.view().columns(kHeads * dim, kKvHeads * dim);
      const Matrix v = all.view().columns((kHeads + kKvHeads) * dim, kKvHeads * dim);
      write(QkvRows{q, k, v, kHeads, kKvHeads, table}, storage.view(0, 1));
      std::vector<std::byte> cached(static_cast<size_t>(blocks * bytes));
      for (BlockId b = 0; b < blocks; ++b) {
        storage.read_block(0, b,
                           std::span(cached).subspan(static_cast<size_t>(b * bytes), static_cast<size_t>(bytes)));
      }
      return std::pair(all.values(), cached);
    };
    const auto apart = run(plain, [&](const QkvRows& r, const KvView& view) {
      backend_->run(RopeOp{r.q, kHeads, r.table});
      backend_->run(RopeOp{r.k, kKvHeads, r.table});
      backend_->run(KvWriteOp{r.k, r.v, view, sequences});
    });
    for (const RopeTable& table : {plain, placed}) {
      const auto together = run(table, [&](const QkvRows& r, const KvView& view) {
        backend_->run(RopeKvWriteOp{r, view, sequences});
      });
      EXPECT_EQ(together.first, apart.first) << static_cast<int>(format) << " " << dim;
      EXPECT_EQ(together.second, apart.second) << static_cast<int>(format) << " " << dim;
    }
  }
}

// Some of a prompt, single tokens behind many others, and a few at once; and rows that attention does not write.
TEST_P(FusedTest, AttentionAndTheProductBehindIt) {
  constexpr int kHeads = 8;
  constexpr int kKvHeads = 2;
  constexpr int kWidth = 24;
  struct Rows {
    Position start;
    int count;
  };
  constexpr Rows kRows[] = {{0, 90}, {300, 1}, {17, 1}, {255, 3}, {600, 1}};
  for (const auto& [format, dim] :
       {std::pair(KvFormat::kF32, 64), std::pair(KvFormat::kF16, 64), std::pair(KvFormat::kBF16, 128),
        std::pair(KvFormat::kInt8, 128), std::pair(KvFormat::kE4M3, 40)}) {
    const KvGroup group{{0}, {kKvHeads, dim, dim}, format, format, {}};
    KvStorage storage(*backend_, KvStorage::Pages{128, make_layout(group, 16).block_bytes()}, 16);
    storage.set_group(0, group);
    std::vector<BlockId> blocks(128);
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<BlockId>(i * 37 % blocks.size());
    std::vector<SequenceView> sequences;
    const BlockId* table = blocks.data();
    int count = 0;
    for (const auto [start, rows_of] : kRows) {
      const int whole = static_cast<int>(start) + rows_of;
      const SequenceView cached{table, 0, 0, whole};
      const DeviceRows k = rows(whole, kKvHeads * dim, 11);
      const DeviceRows v = rows(whole, kKvHeads * dim, 12);
      backend_->run(KvWriteOp{k.view(), v.view(), storage.view(0, 0), {&cached, 1}});
      sequences.push_back({table, start, count, rows_of});
      table += (whole + 15) / 16;
      count += rows_of;
    }
    const OwnedWeight host(kWidth, kHeads * dim, DType::kBF16, 4);
    const auto weight = backend_->load({&host.view, 1});
    const DeviceRows q = rows(count, kHeads * dim, 13);
    for (const size_t used : {sequences.size(), sequences.size() - 1, sequences.size()}) {
      const DeviceRows out = rows(count, kHeads * dim, 14);
      const AttentionBatch batch{q.view(), storage.view(0, 0), std::span(sequences).first(used), kHeads, 0.1F};
      backend_->run(AttentionOp{batch, out.view()});
      const DeviceRows product = rows(count, kWidth);
      backend_->run(MatmulOp{weight.get(), out.view(), nullptr, product.view()});
      const DeviceRows copy(*backend_, [&, width = kHeads * dim] {
        OwnedMatrix now(count, width);
        now.values = out.values();
        now.view.data = now.values.data();
        return now;
      }());
      const DeviceRows fresh = rows(count, kWidth);
      backend_->run(MatmulOp{weight.get(), copy.view(), nullptr, fresh.view()});
      EXPECT_EQ(product.values(), fresh.values()) << static_cast<int>(format) << " " << used;
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
