// What an extension does before anything else of it runs: it adds the address at which it was loaded to its pointers
// to itself (tables of operators, of kernels, of methods: most of what is not code).
//
// A dynamic loader reads 24 bytes for each of them. The linker can write them as bitmaps (RELR, a bit for each), a
// sixtieth of that; but loaders know this since glibc 2.36 only. So the linker gives that list Android's tags, which no
// loader on these systems looks at, and the list is gone through by a function that loaders of all ages call while they
// relocate the file: the resolver of an indirect function (tools/bazel/programs.bzl). That is before any other object
// of the process that needs this one is relocated: a program that is linked with tessera._C may copy tables of virtual
// functions from it then.
//
// This code runs on a file without relocations: nothing of it may read a pointer from memory that the file brings
// along, or call a function of another one. What thread-local variables start with is copied by loaders before, so it
// must hold no addresses (tests/build/test_wheel.py).
#include <elf.h>
#include <link.h>

#include <cstdint>

extern "C" {

// The linker's: where the file begins, and its dynamic section.
[[gnu::visibility("hidden")]] extern const ElfW(Ehdr) __ehdr_start;
extern const ElfW(Dyn) dynamic_section[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));

using Function = void();
[[gnu::visibility("hidden"), gnu::used]] Function* tessera_relocate_extension();
[[gnu::visibility("hidden"), gnu::ifunc("tessera_relocate_extension")]] void tessera_is_relocated();
[[gnu::visibility("hidden")]] extern Function* const volatile tessera_relocation;
}

namespace {
using Address = ElfW(Addr);

constexpr int64_t kRelr = 0x6fffe000;      // DT_ANDROID_RELR
constexpr int64_t kRelrSize = 0x6fffe001;  // DT_ANDROID_RELRSZ

void nothing() {}
}  // namespace

// The loader finds out what this points to, and runs the resolver for it.
Function* const volatile tessera_relocation = &tessera_is_relocated;

// An even entry of the list is the place of a pointer; the bits of an odd one are the 63 words that follow the last
// one.
__attribute__((no_sanitize("address", "thread", "undefined"))) Function* tessera_relocate_extension() {
  char* const base = const_cast<char*>(reinterpret_cast<const char*>(&__ehdr_start));
  const auto by = reinterpret_cast<Address>(base);
  const Address* list = nullptr;
  size_t bytes = 0;
  for (const ElfW(Dyn)* d = dynamic_section; d->d_tag != DT_NULL; d++) {
    if (d->d_tag == kRelr) list = reinterpret_cast<const Address*>(base + d->d_un.d_ptr);
    if (d->d_tag == kRelrSize) bytes = d->d_un.d_val;
  }
  Address* next = nullptr;
  for (size_t i = 0; i < bytes / sizeof(*list); i++) {
    if ((list[i] & 1) == 0) {
      next = reinterpret_cast<Address*>(base + list[i]);
      *next++ += by;
      continue;
    }
    Address* word = next;
    for (Address bits = list[i] >> 1; bits != 0; bits >>= 1, word++) {
      if (bits & 1) *word += by;
    }
    next += 63;
  }
  return &nothing;
}
