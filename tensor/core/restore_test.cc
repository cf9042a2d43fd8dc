#include "tensor/core/restore.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace tessera {
namespace {

thread_local int t_number = 1;

TEST(ScopedValue, PutsTheOldValueBack) {
  {
    const ScopedValue<int> two(t_number, 2);
    EXPECT_EQ(t_number, 2);
    {
      const ScopedValue<int> three(t_number, 3);
      t_number = 4;  // what the scope itself writes does not stay either
    }
    EXPECT_EQ(t_number, 2);
  }
  EXPECT_EQ(t_number, 1);
}

TEST(ScopedValue, PutsItBackWhenAnExceptionPasses) {
  std::string text = "before";
  EXPECT_THROW(
      {
        const ScopedValue<std::string> other(text, "meanwhile");
        EXPECT_EQ(text, "meanwhile");
        throw std::runtime_error("");
      },
      std::runtime_error);
  EXPECT_EQ(text, "before");
}

}  // namespace
}  // namespace tessera
