// Text tables: alignment by code points, no trailing space, colour only on request.
#include "core/report/table.h"

#include <gtest/gtest.h>

namespace fusion {
namespace {

TEST(Table, AlignsByCodePoints) {
  Table table({{"name"}, {"time", Align::right}});
  table.add({"µ-net", "1.5 s"});
  table.add({"b", "12 s"});
  EXPECT_EQ(table.render(false),
            "name    time\n"
            "-----  -----\n"
            "µ-net  1.5 s\n"
            "b       12 s\n");
}

TEST(Table, ColourOnlyWhereAsked) {
  Table table({{"a"}});
  table.add({"x"}, Emphasis::strong);
  EXPECT_EQ(table.render(false), "a\n-\nx\n");
  EXPECT_EQ(table.render(true), "a\n-\n\033[1mx\033[0m\n");
}

TEST(Table, SignificantDigits) {
  EXPECT_EQ(significant(0), "0.00");
  EXPECT_EQ(significant(12.345), "12.3");
  EXPECT_EQ(significant(0.0012345), "0.00123");
  EXPECT_EQ(significant(98765), "98765");
  EXPECT_EQ(percent(0.934), "93 %");
}

}  // namespace
}  // namespace fusion
