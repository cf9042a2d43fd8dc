// Part of --config=check_lock only.
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "python/bindings/common.h"

// One function of Python: the assembly below knows this layout.
struct CheckedCall {
  const char* name;
  void* target;
};

extern "C" {
[[gnu::used, gnu::visibility("hidden")]] void tessera_check_call(const CheckedCall* call) noexcept {
  tessera::python::require_lock(call->name);
}
void tessera_checked_jump();
}

// r11: the CheckedCall. Keeps all registers that arguments are passed in, and jumps to the function, so that nothing of
// this is on the stack while it runs.
asm(R"(
.text
.hidden tessera_checked_jump
.globl tessera_checked_jump
.type tessera_checked_jump, @function
tessera_checked_jump:
  push %rbp
  mov %rsp, %rbp
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %rax
  push %r11
  sub $128, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  mov %r11, %rdi
  call tessera_check_call
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  add $128, %rsp
  pop %r11
  pop %rax
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  pop %rbp
  jmp *8(%r11)
.size tessera_checked_jump, . - tessera_checked_jump
)");

namespace tessera::python {
namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "check_lock: %s without the interpreter's lock\n", what);
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::abort();
}

// What takes the lock, or may be asked at any time.
bool needs_lock(const char* name) {
  if (std::strncmp(name, "Py", 2) != 0 && std::strncmp(name, "_Py", 3) != 0) return false;
  for (const char* free :
       {"PyGILState_Ensure", "PyGILState_Check", "PyEval_RestoreThread", "Py_IsInitialized", "Py_AtExit"})
    if (std::strcmp(name, free) == 0) return false;
  return std::strncmp(name, "PyMem_Raw", 9) != 0 && std::strncmp(name, "PyThread_", 9) != 0;
}

// The dynamic section of the object that holds this function.
struct Tables {
  const ElfW(Rela) * jumps = nullptr;
  size_t num_jumps = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  ElfW(Addr) base = 0;
};
int find_tables(dl_phdr_info* info, size_t, void* out) {
  const auto here = reinterpret_cast<ElfW(Addr)>(&find_tables);
  bool mine = false;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    if (p.p_type == PT_LOAD && here - info->dlpi_addr - p.p_vaddr < p.p_memsz) mine = true;
    if (p.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + p.p_vaddr);
  }
  if (!mine || !dynamic) return 0;
  auto& t = *static_cast<Tables*>(out);
  t.base = info->dlpi_addr;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    switch (dynamic->d_tag) {
      case DT_JMPREL:
        t.jumps = reinterpret_cast<const ElfW(Rela)*>(dynamic->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        t.num_jumps = dynamic->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_SYMTAB:
        t.symbols = reinterpret_cast<const ElfW(Sym)*>(dynamic->d_un.d_ptr);
        break;
      case DT_STRTAB:
        t.names = reinterpret_cast<const char*>(dynamic->d_un.d_ptr);
        break;
      default:
        break;
    }
  }
  return 1;
}

// Code that loads the address of `call` and goes on at tessera_checked_jump: movabs r11; movabs r10; jmp r10.
constexpr size_t kStub = 32;
void write_stub(unsigned char* to, const CheckedCall* call) {
  void (*const next)() = &tessera_checked_jump;
  const unsigned char code[] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0,    0,    0x49, 0xba,
                                0,    0,    0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe2};
  std::memcpy(to, code, sizeof code);
  std::memcpy(to + 2, &call, 8);
  std::memcpy(to + 12, &next, 8);
}

}  // namespace

void require_lock(const char* what) noexcept {
  if (!PyGILState_Check()) fail(what);
}

void check_lock_at_every_call() {
  Tables t;
  dl_iterate_phdr(&find_tables, &t);
  if (!t.jumps || !t.symbols || !t.names) fail("the extension's jump table is missing; nothing can be checked");
  auto* stubs = static_cast<unsigned char*>(
      mmap(nullptr, t.num_jumps * kStub, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (stubs == MAP_FAILED) fail("no memory for the checks");
  auto* calls = new CheckedCall[t.num_jumps];  // for ever
  const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
  for (size_t i = 0; i < t.num_jumps; ++i) {
    const char* name = t.names + t.symbols[ELF64_R_SYM(t.jumps[i].r_info)].st_name;
    if (!needs_lock(name)) continue;
    calls[i] = {name, dlsym(RTLD_DEFAULT, name)};
    if (!calls[i].target) fail(name);
    write_stub(stubs + i * kStub, &calls[i]);
    const ElfW(Addr) slot = t.base + t.jumps[i].r_offset;
    mprotect(reinterpret_cast<void*>(slot & ~(page - 1)), 2 * page,
             PROT_READ | PROT_WRITE);  // it may have been made read-only once it was filled
    *reinterpret_cast<void**>(slot) = stubs + i * kStub;
  }
  mprotect(stubs, t.num_jumps * kStub, PROT_READ | PROT_EXEC);
}

}  // namespace tessera::python
