// Traces of files: our own lines, Mooncake's (timestamp, input_length, output_length, hash_ids) and Azure's
// (TIMESTAMP,ContextTokens,GeneratedTokens). The first line says which.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "trace/request_trace.h"
#include "trace/text_tags.h"

namespace kvasir {

// Several files are parts of one trace, as rotation leaves them. Throws Error naming the file and the line.
RequestTrace read_trace(std::span<const std::filesystem::path> files);
// The same of one, in the order of its lines.
void read_trace(std::istream& in, const std::string& where, RequestTrace& into);
void sort_by_arrival(RequestTrace& trace);

// Costs alone: of a trace of ours, or of what `kvasir bench --json` printed. Throws Error when there are none.
StepCosts read_costs(const std::filesystem::path& file);

// Of prompt and answer, the first `most` of them: the same numbers as far as the trace says that texts are the same.
// `index`: of the request in its trace. Each is below kTraceVocab.
std::vector<TokenId> tokens_of(const TracedRequest& request, std::uint64_t index,
                               std::int64_t most = std::numeric_limits<std::int64_t>::max());
inline constexpr TokenId kTraceVocab = kTags;
inline constexpr TokenId kEndOfAnswer = kTraceVocab;  // what ends an answer that ended by itself

}  // namespace kvasir
