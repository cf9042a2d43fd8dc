// What an extension does before anything else of it runs: it adds the address at which it was loaded to its pointers
// to itself (tables of operators, of kernels, of methods: most of what is not code).
//
// A dynamic loader reads 24 bytes for each of them. The linker can write them as bitmaps (RELR, a bit for each), a
// sixtieth of that; but loaders know this since glibc 2.36 only. So the linker gives that list Android's tags, which no
// loader on these systems looks at, and the extension's DT_INIT is tessera_relocate_extension(), which loaders of all
// ages call before the constructors of the file (tools/bazel/programs.bzl).
//
// This code runs on a file without relocations: nothing of it may read a pointer from memory that the file brings
// along. What thread-local variables start with is copied by loaders before, so it must hold no addresses
// (tests/build/test_wheel.py).
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

extern "C" {

// The linker's: where the file begins, and its dynamic section.
[[gnu::visibility("hidden")]] extern const ElfW(Ehdr) __ehdr_start;
extern const ElfW(Dyn) dynamic_section[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));

[[gnu::visibility("hidden")]] void tessera_relocate_extension();
}

namespace {

using Address = ElfW(Addr);

constexpr int64_t kRelr = 0x6fffe000;      // DT_ANDROID_RELR
constexpr int64_t kRelrSize = 0x6fffe001;  // DT_ANDROID_RELRSZ

// The part that the loader has made read-only, when it was done with its relocations.
struct Protected {
  char* begin = nullptr;
  size_t size = 0;

  explicit Protected(char* base) {
    const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(base + __ehdr_start.e_phoff);
    const uintptr_t page = static_cast<uintptr_t>(getpagesize());
    for (int i = 0; i < __ehdr_start.e_phnum; i++) {
      if (headers[i].p_type != PT_GNU_RELRO) continue;
      const uintptr_t first = (reinterpret_cast<uintptr_t>(base) + headers[i].p_vaddr) & -page;
      const uintptr_t end = (reinterpret_cast<uintptr_t>(base) + headers[i].p_vaddr + headers[i].p_memsz) & -page;
      begin = reinterpret_cast<char*>(first);
      size = end - first;
    }
  }

  void allow(int access) const {
    if (size != 0 && mprotect(begin, size, access) != 0) abort();
  }
};

// An even entry is the place of a pointer; the bits of an odd one are the 63 words that follow the last one.
void add_base(char* base, const Address* entry, const Address* end) {
  const auto by = reinterpret_cast<Address>(base);
  Address* next = nullptr;
  for (; entry != end; entry++) {
    if ((*entry & 1) == 0) {
      next = reinterpret_cast<Address*>(base + *entry);
      *next++ += by;
      continue;
    }
    Address* word = next;
    for (Address bits = *entry >> 1; bits != 0; bits >>= 1, word++) {
      if (bits & 1) *word += by;
    }
    next += 63;
  }
}

}  // namespace

void tessera_relocate_extension() {
  char* base = const_cast<char*>(reinterpret_cast<const char*>(&__ehdr_start));
  const Address* list = nullptr;
  size_t bytes = 0;
  for (const ElfW(Dyn)* d = dynamic_section; d->d_tag != DT_NULL; d++) {
    if (d->d_tag == kRelr) list = reinterpret_cast<const Address*>(base + d->d_un.d_ptr);
    if (d->d_tag == kRelrSize) bytes = d->d_un.d_val;
  }
  if (list == nullptr) return;
  const Protected held(base);
  held.allow(PROT_READ | PROT_WRITE);
  add_base(base, list, list + bytes / sizeof(*list));
  held.allow(PROT_READ);
}
