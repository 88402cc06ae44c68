#include "model/gguf/gguf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr int kDeepestArray = 4;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::uint64_t kLongestName = 1024;
constexpr std::uint64_t kLargestAlignment = 1 << 20;

constexpr std::pair<std::uint32_t, DType> kOurs[] = {
    {0, DType::kF32},     {1, DType::kF16},     {2, DType::kQ4_0},  {3, DType::kQ4_1},
    {6, DType::kQ5_0},    {7, DType::kQ5_1},    {8, DType::kQ8_0},  {10, DType::kQ2_K},
    {11, DType::kQ3_K},   {12, DType::kQ4_K},   {13, DType::kQ5_K}, {14, DType::kQ6_K},
    {20, DType::kIQ4_NL}, {23, DType::kIQ4_XS}, {30, DType::kBF16}, {39, DType::kMXFP4}};

constexpr std::pair<std::uint32_t, const char*> kOthers[] = {
    {9, "q8_1"},   {15, "q8_k"},  {16, "iq2_xxs"}, {17, "iq2_xs"}, {18, "iq3_xxs"}, {19, "iq1_s"},
    {21, "iq3_s"}, {22, "iq2_s"}, {24, "i8"},      {25, "i16"},    {26, "i32"},     {27, "i64"},
    {28, "f64"},   {29, "iq1_m"}, {34, "tq1_0"},   {35, "tq2_0"}};

std::optional<DType> our_type(std::uint32_t number) {
  const auto* found = std::ranges::find(kOurs, number, &std::pair<std::uint32_t, DType>::first);
  return found == std::end(kOurs) ? std::nullopt : std::optional(found->second);
}

// Bytes of one value; 0 for strings, arrays and numbers that name no type.
std::size_t bytes_of(GgufType type) {
  constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto i = static_cast<std::size_t>(type);
  return i < std::size(kBytes) ? kBytes[i] : 0;
}

template <class T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// What stands at `from`, as the widest number of its kind. Not for strings and arrays.
GgufValue read_number(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::kU8:
      return std::uint64_t{read_as<std::uint8_t>(from)};
    case GgufType::kI8:
      return std::int64_t{read_as<std::int8_t>(from)};
    case GgufType::kU16:
      return std::uint64_t{read_as<std::uint16_t>(from)};
    case GgufType::kI16:
      return std::int64_t{read_as<std::int16_t>(from)};
    case GgufType::kU32:
      return std::uint64_t{read_as<std::uint32_t>(from)};
    case GgufType::kI32:
      return std::int64_t{read_as<std::int32_t>(from)};
    case GgufType::kF32:
      return double{read_as<float>(from)};
    case GgufType::kBool:
      return read_as<std::uint8_t>(from) != 0;
    case GgufType::kU64:
      return read_as<std::uint64_t>(from);
    case GgufType::kI64:
      return read_as<std::int64_t>(from);
    default:
      return read_as<double>(from);
  }
}

// Walks through the file; every step is inside it, or an Error.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, const std::string& where) : file_(file), where_(where) {}

  [[noreturn]] void fail(std::string what) const { fail_input(std::move(what), where_, kDamagedFile); }

  std::uint64_t left() const { return file_.size() - at_; }
  std::size_t position() const { return at_; }

  std::span<const std::byte> take(std::uint64_t bytes, std::string_view what) {
    if (bytes > left()) {
      fail(fmt::format("{} claims {} bytes where {} are left of the file", what, bytes, left()));
    }
    const auto taken = file_.subspan(at_, static_cast<std::size_t>(bytes));
    at_ += taken.size();
    return taken;
  }

  template <class T>
  T number(std::string_view what) {
    return read_as<T>(take(sizeof(T), what).data());
  }

  std::string_view string(std::string_view what) {
    const auto bytes = take(number<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::string_view name(std::string_view what) {
    const std::string_view text = string(what);
    if (text.empty() || text.size() > kLongestName) {
      fail(fmt::format("{} has {} characters, outside 1..{}", what, text.size(), kLongestName));
    }
    return text;
  }

  GgufValue value(GgufType type, std::string_view key, int depth) {
    if (type == GgufType::kString) return string(key);
    if (type == GgufType::kArray) return array(key, depth);
    return read_number(type, take(sized(type, key), key).data());
  }

 private:
  std::size_t sized(GgufType type, std::string_view key) const {
    const std::size_t bytes = bytes_of(type);
    if (bytes == 0) fail(fmt::format("'{}' has the unknown type {}", key, static_cast<std::uint32_t>(type)));
    return bytes;
  }

  GgufValue array(std::string_view key, int depth) {
    const auto type = static_cast<GgufType>(number<std::uint32_t>(key));
    const auto count = number<std::uint64_t>(key);
    const bool nested = type == GgufType::kArray;
    // A string takes its length at least, an inner array its type and count.
    const std::uint64_t least = nested ? 12 : type == GgufType::kString ? 8 : sized(type, key);
    if (count > left() / least) {
      fail(fmt::format("'{}' claims {} elements where {} bytes are left of the file", key, count, left()));
    }
    if (nested) {
      if (depth == kDeepestArray) fail(fmt::format("'{}' nests arrays more than {} deep", key, kDeepestArray));
      for (std::uint64_t i = 0; i < count; ++i) array(key, depth + 1);
      return GgufNested{};
    }
    if (type != GgufType::kString) return GgufNumbers{type, take(count * least, key)};
    GgufStrings strings;
    strings.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) strings.push_back(string(key));
    return strings;
  }

  std::span<const std::byte> file_;
  const std::string& where_;
  std::size_t at_ = 0;
};

struct Header {
  std::uint64_t tensors = 0;
  std::uint64_t keys = 0;
};

Header read_header(Cursor& in) {
  const auto magic = in.number<std::uint32_t>("the header");
  if (magic != kGgufMagic) in.fail("the file does not begin with GGUF");
  const auto version = in.number<std::uint32_t>("the header");
  if (version != 2 && version != 3) {
    const bool swapped = version != 0 && (version & 0xffffU) == 0;
    in.fail(swapped ? "the file is big endian, and only little endian files are read"
                    : fmt::format("the file is GGUF version {}, and 2 and 3 are known", version));
  }
  Header header;
  header.tensors = in.number<std::uint64_t>("the header");
  header.keys = in.number<std::uint64_t>("the header");
  // The least that a tensor's entry (name, rank, type, offset) and a key with its value can take.
  if (header.tensors > in.left() / 24 || header.keys > in.left() / 13) {
    in.fail(fmt::format("the header claims {} tensors and {} keys in a file of {} bytes", header.tensors, header.keys,
                        in.left() + in.position()));
  }
  return header;
}

std::uint64_t alignment_of(const GgufContent& content, const Cursor& in) {
  const auto found = content.metadata.find("general.alignment");
  if (found == content.metadata.end()) return kGgufAlignment;
  const auto* value = std::get_if<std::uint64_t>(&found->second);
  if (value == nullptr || !std::has_single_bit(*value) || *value > kLargestAlignment) {
    in.fail("general.alignment is not a power of two");
  }
  return *value;
}

// A tensor as the list describes it; where its bytes lie is settled once the list's end is known.
struct Listed {
  std::string_view name;
  GgufTensor tensor;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // 0: of a type we do not know
};

std::uint64_t size_of(const GgufTensor& tensor, std::string_view name, const Cursor& in) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 1 || __builtin_mul_overflow(elements, extent, &elements)) {
      in.fail(fmt::format("tensor '{}' has the impossible shape [{}]", name, fmt::join(tensor.shape, ", ")));
    }
  }
  if (!tensor.dtype) return 0;
  const int block = block_elements(*tensor.dtype);
  if (tensor.shape.back() % block != 0) {
    in.fail(fmt::format("tensor '{}' has rows of {} numbers, and {} takes blocks of {}", name, tensor.shape.back(),
                        name_of(*tensor.dtype), block));
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(elements / block), block_bytes(*tensor.dtype), &bytes)) {
    in.fail(fmt::format("tensor '{}' has the impossible shape [{}]", name, fmt::join(tensor.shape, ", ")));
  }
  return bytes;
}

Listed read_listed(Cursor& in) {
  Listed out;
  out.name = in.name("a tensor's name");
  const auto rank = in.number<std::uint32_t>(out.name);
  if (rank < 1 || rank > kMostDimensions) {
    in.fail(fmt::format("tensor '{}' has {} dimensions, outside 1..{}", out.name, rank, kMostDimensions));
  }
  for (std::uint32_t i = 0; i < rank; ++i) {
    // What does not fit becomes negative, and is refused as a shape.
    out.tensor.shape.push_back(static_cast<std::int64_t>(in.number<std::uint64_t>(out.name)));
  }
  std::ranges::reverse(out.tensor.shape);
  out.tensor.type = in.number<std::uint32_t>(out.name);
  out.tensor.dtype = our_type(out.tensor.type);
  out.offset = in.number<std::uint64_t>(out.name);
  out.size = size_of(out.tensor, out.name, in);
  return out;
}

void check_no_overlap(const std::vector<Listed>& listed, const Cursor& in) {
  std::vector<const Listed*> order;
  order.reserve(listed.size());
  for (const Listed& one : listed) order.push_back(&one);
  std::ranges::sort(order, {}, [](const Listed* one) { return one->offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->size > order[i]->offset || order[i - 1]->offset == order[i]->offset) {
      in.fail(fmt::format("tensor '{}' overlaps '{}'", order[i]->name, order[i - 1]->name));
    }
  }
}

void place(std::vector<Listed>& listed, std::uint64_t alignment, Cursor& in, GgufContent& content) {
  const std::uint64_t padding = (alignment - in.position() % alignment) % alignment;
  in.take(std::min(padding, in.left()), "padding");
  const auto data = in.take(in.left(), "data");
  for (const Listed& one : listed) {
    if (one.offset % alignment != 0) {
      in.fail(fmt::format("tensor '{}' is at {}, which is no multiple of {}", one.name, one.offset, alignment));
    }
    if (one.offset > data.size() || one.size > data.size() - one.offset) {
      in.fail(fmt::format("tensor '{}' takes {} bytes at {}, outside the file's {} bytes of data", one.name, one.size,
                          one.offset, data.size()));
    }
  }
  check_no_overlap(listed, in);
  for (Listed& one : listed) {
    one.tensor.bytes = data.subspan(static_cast<std::size_t>(one.offset), static_cast<std::size_t>(one.size));
    if (!content.tensors.emplace(one.name, std::move(one.tensor)).second) {
      in.fail(fmt::format("tensor '{}' is there twice", one.name));
    }
  }
}

}  // namespace

std::size_t GgufNumbers::size() const { return bytes.size() / bytes_of(type); }

double GgufNumbers::at(std::size_t i) const {
  return std::visit(
      [](const auto& value) -> double {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) return static_cast<double>(value);
        return 0;  // read_number gives numbers only
      },
      read_number(type, bytes.data() + i * bytes_of(type)));
}

GgufContent parse_gguf(std::span<const std::byte> file, const std::string& where) {
  Cursor in(file, where);
  const Header header = read_header(in);
  GgufContent content;
  for (std::uint64_t i = 0; i < header.keys; ++i) {
    const std::string_view key = in.name("a key");
    const auto type = static_cast<GgufType>(in.number<std::uint32_t>(key));
    if (!content.metadata.emplace(key, in.value(type, key, 1)).second) {
      in.fail(fmt::format("the key '{}' is there twice", key));
    }
  }
  const std::uint64_t alignment = alignment_of(content, in);
  std::vector<Listed> listed;
  for (std::uint64_t i = 0; i < header.tensors; ++i) listed.push_back(read_listed(in));
  place(listed, alignment, in, content);
  return content;
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : file(path), content(parse_gguf(file->bytes(), path.string())) {}

std::uint32_t gguf_number_of(DType type) {
  return std::ranges::find(kOurs, type, &std::pair<std::uint32_t, DType>::second)->first;
}

std::string gguf_type_name(std::uint32_t number) {
  if (const auto type = our_type(number)) return std::string(name_of(*type));
  const auto* found = std::ranges::find(kOthers, number, &std::pair<std::uint32_t, const char*>::first);
  return found == std::end(kOthers) ? fmt::format("number {}", number) : found->second;
}

}  // namespace kvasir
