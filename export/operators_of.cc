// Prints the operators that exported programs call, one a line: operators_of FILE.pt2...
#include <cstdio>
#include <set>

#include "export/names.h"
#include "tensor/core/error.h"

int main(int argc, char** argv) {
  std::set<std::string> names;
  for (int i = 1; i < argc; ++i) {
    try {
      tessera::serialization::FileSource source(argv[i]);
      names.merge(tessera::exported::operators_of(source));
    } catch (const tessera::Error& e) {
      std::fprintf(stderr, "%s: %s\n", argv[i], e.what());
      return 1;
    }
  }
  for (const std::string& name : names) std::printf("%s\n", name.c_str());
}
