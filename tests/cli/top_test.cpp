// What kvasir top makes of a stream, and what it lets through to a terminal. The real program on a real terminal is
// in tests/top.
#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/top/canvas.h"
#include "cli/top/live_picture.h"
#include "cli/top/views.h"

namespace kvasir::testing {
namespace {

constexpr const char* kHello =
    R"({"hello":{"model":"tales","device":"cpu","open":true,"block_tokens":16},"groups":[],)"
    R"("blocks":[[0,0,2,1,0],[1,0,1],[2,0,4,0,0,3,-1,5.0,4.0,"00ff"]],"requests":[],"now":1})";

TEST(CanvasTest, NothingThatSteersATerminalIsWritten) {
  Canvas canvas(40, 1);
  canvas.text(0, 0,
              "a\x1b]0;owned\x07"
              "b\x9b"
              "c\xc2\x9b"
              "d\x7f\n\xff"
              "é█");
  const std::string plain = canvas.plain(0);
  EXPECT_EQ(plain.find_first_of("\x1b\x07\x7f\n"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("\xc2\x9b"), std::string::npos) << plain;
  EXPECT_TRUE(plain.starts_with("a?]0;owned?b")) << plain;
  EXPECT_TRUE(plain.ends_with("é█")) << plain;
}

TEST(CanvasTest, OnlyRowsThatChangedAreSent) {
  Canvas before(10, 3);
  before.text(0, 0, "one");
  before.text(0, 2, "three");
  Canvas after = before;
  EXPECT_EQ(after.changes_from(before), "");
  after.text(0, 2, "THREE", {Ink::kRed, true, false});
  EXPECT_EQ(after.changes_from(before), "\x1b[3;1H\x1b[0;1;31mTHREE\x1b[0m     \x1b[0m");
  EXPECT_TRUE(after.changes_from(Canvas(9, 3)).starts_with("\x1b[2J"));
}

TEST(CanvasTest, TextIsCutAtItsEnds) {
  Canvas canvas(5, 2);
  EXPECT_EQ(canvas.text(3, 0, "long"), 5);
  EXPECT_EQ(canvas.text(-2, 1, "long"), 2);
  canvas.text(0, 7, "below");
  EXPECT_EQ(canvas.plain(0), "   lo");
  EXPECT_EQ(canvas.plain(1), "ng");
}

TEST(LivePictureTest, ChangesAddUp) {
  LivePicture picture;
  picture.take(kHello, 100);
  EXPECT_EQ(picture.cells().size(), 3U);
  EXPECT_EQ(picture.cells().at(2).used, 96);
  picture.take(R"({"gone":[1],"blocks":[[2,0,3,2,0]],"events":[["hit",2,7,0.1],["evicted",9,7,0.1]],"now":2})", 101);
  EXPECT_EQ(picture.cells().size(), 2U);
  EXPECT_EQ(picture.cells().at(2).sight, BlockSight::kShared);
  EXPECT_EQ(picture.cells().at(2).change, "hit");
  EXPECT_EQ(picture.happened().at("evicted"), 1);
}

TEST(LivePictureTest, ALaneIsDrawnAnewFromTheRecord) {
  LivePicture picture;
  picture.take(kHello, 0);
  picture.take(R"({"numbers":{"queried":0,"hit":0,"tenants":[]},"now":1})", 1);
  picture.take(R"({"requests":[{"id":5,"phase":"queued"}],"now":1})", 1);
  picture.take(R"({"requests":[{"id":5,"phase":"decode"}],"now":2})", 2);
  EXPECT_TRUE(picture.lanes().at(5).running);
  EXPECT_EQ(picture.lanes().at(5).stretches.size(), 2U);
  picture.take(
      R"({"requests":[],"finished":[{"tasks":[5],"seconds":1.5,"first_token_seconds":0.5,"queue_seconds":0.25,)"
      R"("finish_reasons":["stop"]}],"numbers":{"queried":40,"hit":10,"answer_tokens":30,"tenants":[]},"now":3})",
      3);
  const std::vector<LiveStretch>& stretches = picture.lanes().at(5).stretches;
  ASSERT_EQ(stretches.size(), 3U);
  EXPECT_EQ(stretches[0].from, 0.5);
  EXPECT_EQ(stretches[1].from, 0.75);
  EXPECT_EQ(stretches[2].from, 1);
  EXPECT_EQ(stretches[2].to, 2);
  EXPECT_FALSE(picture.lanes().at(5).running);
  ASSERT_EQ(picture.rates().size(), 1U);
  EXPECT_EQ(picture.rates()[0].reused, 0.25);
  EXPECT_EQ(picture.rates()[0].prompt, 15);  // a second: two passed
}

TEST(LivePictureTest, TenMinutesAreKept) {
  LivePicture picture;
  picture.take(kHello, 0);
  picture.take(R"({"requests":[{"id":5,"phase":"decode"}],"now":1})", 1);
  picture.take(R"({"requests":[],"now":1})", 2);
  picture.take(R"({"now":1})", 600);
  EXPECT_EQ(picture.lanes().size(), 1U);
  picture.take(R"({"now":1})", 602);
  EXPECT_EQ(picture.lanes().size(), 0U);
}

TEST(LivePictureTest, WhatIsNoSuchStreamIsRefused) {
  for (const char* text :
       {"", "[]", "{}", R"({"blocks":[]})", R"({"hello":{},"blocks":[[1,0]]})", R"({"hello":{},"blocks":[[1,0,9]]})",
        R"({"hello":{},"requests":[{"id":"x"}]})", R"({"hello":{},"events":[["hit"]]})"}) {
    LivePicture picture;
    EXPECT_THROW(picture.take(text, 0), Error) << text;
  }
}

TEST(TopViewTest, EveryPageFitsEverySize) {
  LivePicture picture;
  picture.take(kHello, 0);
  picture.take(R"({"requests":[{"id":123456789012345,"phase":"swapped","request":"x"}],)"
               R"("finished":[{"id":"y","tasks":[4],"reason":"evicted","prompt_tokens":9}],"now":1})",
               1);
  for (const TopPage page :
       {TopPage::kAll, TopPage::kBlocks, TopPage::kLanes, TopPage::kRequests, TopPage::kTenants}) {
    for (const auto& [width, height] : {std::pair{1, 1}, {3, 9}, {20, 4}, {80, 24}, {300, 3}}) {
      TopChoice choice;
      choice.page = page;
      choice.chosen = 0;
      Canvas canvas(width, height);
      draw_top({picture, choice, 2, "live"}, canvas);
      EXPECT_TRUE(canvas.plain(0).starts_with(std::string("kvasir top").substr(0, static_cast<size_t>(width))));
    }
  }
}

TEST(TopViewTest, ManyBlocksShareACharacter) {
  LivePicture picture;
  std::string rows;
  for (int i = 0; i < 20000; ++i)
    rows += (i == 0 ? "" : ",") + ("[" + std::to_string(i) + (i < 15000 ? ",0,2,1,0]" : ",0,1]"));
  picture.take(R"({"hello":{},"blocks":[)" + rows + R"(],"now":1})", 0);
  TopChoice choice;
  choice.plain = true;
  Canvas canvas(100, 21);
  draw_blocks({picture, choice, 1, "live"}, canvas, {0, 0, 100, 21});
  EXPECT_NE(canvas.plain(0).find("20000 blocks by state"), std::string::npos) << canvas.plain(0);
  EXPECT_NE(canvas.plain(0).find("(10 in a character)"), std::string::npos) << canvas.plain(0);
  EXPECT_EQ(canvas.plain(15), std::string(100, 'u'));
  EXPECT_EQ(canvas.plain(16), std::string(100, '.'));
}

}  // namespace
}  // namespace kvasir::testing
