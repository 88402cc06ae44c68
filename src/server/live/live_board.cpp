#include "server/live/live_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "server/api/json_fields.h"

namespace kvasir {
namespace {

std::string live_quoted(std::string_view text) { return to_text(OrderedJson(std::string(text))); }

OrderedJson live_group_json(const WatchedGroup& group) {
  return {
      {"policy", group.policy}, {"state", group.state}, {"window", group.window}, {"block_bytes", group.block_bytes}};
}

std::string live_request_json(const WatchedRequest& request, const Caller& caller) {
  return fmt::format(
      R"({{"id":{},"request":{},"tenant":{},"phase":"{}","prompt":{},"cached":{},"reused":{},"answer":{},"blocks":{},"pauses":{},"kv":{}}})",
      task_number(caller, request.id), live_quoted(request.label), request.tenant, name_of(request.phase),
      request.prompt_tokens, request.cached_tokens, request.reused_tokens, request.answer_tokens, request.blocks,
      request.preemptions, live_quoted(request.kv));
}

}  // namespace

std::uint64_t cell_number(const Caller& caller, size_t group, BlockId block) {
  const std::uint64_t place = (std::uint64_t{group} << 32) | static_cast<std::uint32_t>(block);
  if (caller.sees == KeyEntry::Sees::kAll) return place;
  return task_number(caller, (std::uint64_t{1} << 47) | place);
}

std::string short_key(const Key256& key) { return fmt::format("{:016x}", Key256Hash{}(key)); }

std::optional<std::uint64_t> parse_short_key(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16) return std::nullopt;
  return value;
}

void LiveBoard::apply(EngineLook look) {
  ++version_;
  now_ = look.now;
  changed_ = !look.blocks.empty() || !look.events.empty();
  rows_.resize(look.groups.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (look.groups[g] == groups_[g]) continue;
    for (Row& row : rows_[g]) row = {{.info = row.block.info}, version_};  // another policy's group now
  }
  groups_ = std::move(look.groups);
  for (const WatchedBlock& block : look.blocks) {
    std::vector<Row>& rows = rows_[block.info.group];
    const auto place = static_cast<size_t>(block.info.block);
    if (rows.size() <= place) rows.resize(place + 1);
    rows[place] = {block, version_};
  }
  first_event_ += static_cast<std::uint64_t>(look.lost_events);
  events_.insert(events_.end(), look.events.begin(), look.events.end());
  while (events_.size() > kKeptEvents) {
    events_.pop_front();
    ++first_event_;
  }
  requests_ = std::move(look.requests);
}

void LiveBoard::clear() {
  groups_.clear();
  rows_.clear();
  first_event_ += events_.size();
  events_.clear();
  requests_.clear();
  ++version_;
}

// Of groups in which a tenant has nothing it is not told.
std::string LiveBoard::groups_for(LiveViewer& viewer) const {
  std::vector<WatchedGroup> told(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    const bool has_some = viewer.sees_all() || std::ranges::find(viewer.shown[g], true) != viewer.shown[g].end();
    if (has_some) told[g] = groups_[g];
  }
  if (told == viewer.groups) return {};
  viewer.groups = std::move(told);
  OrderedJson list = OrderedJson::array();
  for (const WatchedGroup& group : viewer.groups) list.push_back(live_group_json(group));
  return fmt::format("\"groups\":{},", to_text(list));
}

// [cell, group, sight, refs, tenant, place in its text, cell before it or -1, seconds since it got its name or -1,
// seconds since its last use or -1, key]
void LiveBoard::write_row(std::string& out, const LiveViewer& viewer, const Row& row) const {
  const BlockInfo& info = row.block.info;
  const Caller& caller = *viewer.caller;
  const bool held = info.state == BlockPool::State::kHeld;
  const bool empty = info.state == BlockPool::State::kFree;
  auto at = std::back_inserter(out);
  fmt::format_to(at, "{}[{},{},{}", out.empty() ? "" : ",", cell_number(caller, info.group, info.block), info.group,
                 static_cast<int>(row.block.sight));
  if (!empty) {
    fmt::format_to(at, ",{},{}", info.refs, static_cast<std::int64_t>(info.owner) - 1);
    if (info.published) {
      const std::int64_t parent =
          info.parent == kNoBlock ? -1 : static_cast<std::int64_t>(cell_number(caller, info.group, info.parent));
      fmt::format_to(at, ",{},{},{:.1f},{:.1f},\"{}\"", info.block_index, parent, now_ - info.born,
                     held ? 0.0 : now_ - info.last_use, short_key(info.key));
    }
  }
  out += ']';
}

std::string LiveBoard::blocks_for(LiveViewer& viewer) const {
  std::string rows;
  std::string gone;
  viewer.shown.resize(rows_.size());
  for (size_t g = 0; g < rows_.size(); ++g) {
    viewer.shown[g].resize(std::max(viewer.shown[g].size(), rows_[g].size()));
    for (size_t b = 0; b < rows_[g].size(); ++b) {
      const Row& row = rows_[g][b];
      if (row.version <= viewer.version) continue;
      const bool free = row.block.sight == BlockSight::kFree;
      const bool visible =
          row.block.sight != BlockSight::kAbsent && (free ? viewer.sees_all() : viewer.sees(row.block.info.owner));
      if (visible) {
        write_row(rows, viewer, row);
      } else if (viewer.shown[g][b]) {
        fmt::format_to(std::back_inserter(gone), "{}{}", gone.empty() ? "" : ",",
                       cell_number(*viewer.caller, g, static_cast<BlockId>(b)));
      }
      viewer.shown[g][b] = visible;
    }
  }
  viewer.version = version_;
  std::string out = groups_for(viewer);
  if (!rows.empty()) out += fmt::format("\"blocks\":[{}],", rows);
  if (!gone.empty()) out += fmt::format("\"gone\":[{}],", gone);
  return out;
}

// [kind, cell, request or 0, seconds ago]
std::string LiveBoard::events_for(LiveViewer& viewer) const {
  const std::uint64_t end = first_event_ + events_.size();
  if (!viewer.begun) viewer.event = end;  // what was before it came is in the blocks
  if (viewer.event == end) return {};
  const std::uint64_t newest = end > kSentEvents ? end - kSentEvents : 0;
  const std::uint64_t from = std::max({viewer.event, first_event_, newest});
  const std::uint64_t lost = viewer.sees_all() ? from - viewer.event : 0;
  std::string list;
  for (std::uint64_t i = from; i < end; ++i) {
    const CacheEvent& event = events_[static_cast<size_t>(i - first_event_)];
    if (!viewer.sees(event.owner)) continue;
    const bool told = event.request != 0 && (viewer.sees_all() || event.tenant == viewer.caller->id);
    fmt::format_to(std::back_inserter(list), "{}[\"{}\",{},{},{:.2f}]", list.empty() ? "" : ",", name_of(event.kind),
                   cell_number(*viewer.caller, event.group, event.to == kNoBlock ? event.block : event.to),
                   told ? task_number(*viewer.caller, event.request) : 0, now_ - event.time);
  }
  viewer.event = end;
  if (list.empty() && lost == 0) return {};
  return fmt::format("\"events\":[{}],\"lost\":{},", list, lost);
}

std::string LiveBoard::requests_for(LiveViewer& viewer) const {
  std::string list;
  for (const WatchedRequest& request : requests_) {
    if (!viewer.sees_all() && request.tenant != viewer.caller->id) continue;
    if (!list.empty()) list += ',';
    list += live_request_json(request, *viewer.caller);
  }
  if (viewer.begun && list == viewer.requests) return {};
  viewer.requests = list;
  return fmt::format("\"requests\":[{}],", list);
}

}  // namespace kvasir
