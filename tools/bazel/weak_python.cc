// Makes the references of an extension module to Python's API weak, so that the same shared object can be loaded by a
// program without Python: what asks for nothing of Python works there.
//
//   weak_python IN OUT
//
// Nothing moves: each undefined entry of the dynamic symbol table whose name begins with Py or _Py gets another
// binding. The loader of a Python process finds them as before, and leaves null where there is none.
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

namespace {

bool is_python(const char* name) { return !std::strncmp(name, "Py", 2) || !std::strncmp(name, "_Py", 3); }

// The number of entries changed; -1 if the bytes are no shared object for this machine.
int make_weak(std::string* file) {
  auto at = [&](size_t offset, size_t size) -> char* {
    return offset <= file->size() && size <= file->size() - offset ? file->data() + offset : nullptr;
  };
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(at(0, sizeof(Elf64_Ehdr)));
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_ident[EI_CLASS] != ELFCLASS64) return -1;
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(at(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr)));
  if (!sections) return -1;
  for (int i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr& table = sections[i];
    if (table.sh_type != SHT_DYNSYM) continue;
    if (table.sh_link >= header->e_shnum) return -1;
    const Elf64_Shdr& text = sections[table.sh_link];
    const char* names = at(text.sh_offset, text.sh_size);
    auto* symbols = reinterpret_cast<Elf64_Sym*>(at(table.sh_offset, table.sh_size));
    if (!names || !symbols || !text.sh_size || names[text.sh_size - 1]) return -1;
    int changed = 0;
    for (Elf64_Sym* s = symbols; s != symbols + table.sh_size / sizeof(Elf64_Sym); ++s) {
      if (s->st_shndx != SHN_UNDEF || ELF64_ST_BIND(s->st_info) != STB_GLOBAL) continue;
      if (s->st_name >= text.sh_size || !is_python(names + s->st_name)) continue;
      s->st_info = ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(s->st_info));
      ++changed;
    }
    return changed;
  }
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: weak_python IN OUT\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  std::string file((std::istreambuf_iterator<char>(in)), {});
  if (make_weak(&file) <= 0) {
    std::cerr << argv[1] << ": not a shared object that refers to Python\n";
    return 1;
  }
  std::ofstream out(argv[2], std::ios::binary);
  out << file;
  return out.flush() ? 0 : 1;
}
