// Makes the unwind tables of a linked program or shared object smaller: exceptions need them where functions are
// called.
//
//   call_frames IN OUT
//
// Compilers describe a frame after each instruction that changes it. An exception passes a function at a call (or at a
// system call, where threads are cancelled): rows of code without one are left out, and with them what led to them and
// back; functions without any call have no description, and neighbours that have the same frame share one. Neither do
// entries end with bytes that fill them up. What a debugger or a sampling profiler sees is unchanged wherever a
// function waits for another one.
//
// The tables are the end of their segment, so that those behind it move forward in the file by whole pages; no address
// of code or data changes.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

// DWARF 5, section 6.4.2; the last one is GNU's.
enum : uint8_t {
  kAdvance = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,
  kNop = 0,
  kAdvance1 = 2,
  kAdvance2,
  kAdvance4,
  kOffsetExtended,
  kRestoreExtended,
  kUndefined,
  kSameValue,
  kRegister,
  kRememberState,
  kRestoreState,
  kDefCfa,
  kDefCfaRegister,
  kDefCfaOffset,
  kDefCfaExpression,
  kExpression,
  kOffsetExtendedSf,
  kArgsSize = 0x2e,
};

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

// Reads bytes one after the other.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return at_ == bytes_.size(); }
  size_t at() const { return at_; }
  std::string_view take(size_t n) {
    require(n <= bytes_.size() - at_, "unwind tables end in the middle of an entry");
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  template <class T>
  T value() {
    T x;
    std::memcpy(&x, take(sizeof(T)).data(), sizeof(T));
    return x;
  }
  uint64_t uleb() {
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = value<uint8_t>();
      x |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return x;
    }
  }
  // With its length in front.
  std::string_view block() {
    const size_t begin = at_;
    take(uleb());
    return bytes_.substr(begin, at_ - begin);
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

template <class T>
void put(std::string* to, T x) {
  to->append(reinterpret_cast<const char*>(&x), sizeof x);
}
void put_uleb(std::string* to, uint64_t x) {
  for (; x >= 0x80; x >>= 7) put(to, static_cast<uint8_t>(x | 0x80));
  put(to, static_cast<uint8_t>(x));
}

// How a caller's frame is found: the frame's address, and where registers are (by the instruction that says so).
struct Frame {
  uint64_t base = 0, offset = 0;
  std::string expression;  // instead of both
  std::map<uint64_t, std::string> registers;
  uint64_t arguments = 0;  // bytes on the stack
};

struct Row {
  uint64_t begin, end;
  Frame frame;
};

std::string rule(uint8_t op, uint64_t reg, std::string_view rest) {
  std::string bytes;
  if (op == kOffset) {
    require(reg < 0x40, "a register is out of range");
    put(&bytes, static_cast<uint8_t>(kOffset | reg));
  } else {
    put(&bytes, op);
    put_uleb(&bytes, reg);
  }
  return bytes.append(rest);
}
std::string uleb(uint64_t x) {
  std::string bytes;
  put_uleb(&bytes, x);
  return bytes;
}

// The rows of an entry; of a common entry (no `initial`), its one row.
std::vector<Row> rows_of(std::string_view program, uint64_t begin, uint64_t end, const Frame* initial) {
  std::vector<Row> rows{{begin, end, initial ? *initial : Frame()}};
  std::vector<Frame> remembered;
  Reader in(program);
  const auto advance = [&](uint64_t by) {
    const uint64_t at = rows.back().begin + by;
    require(at <= end, "a row begins behind its function");
    if (by == 0) return;
    rows.back().end = at;
    rows.push_back({at, end, rows.back().frame});
  };
  const auto restore = [&](uint64_t reg) {
    require(initial, "a common entry restores a register");
    auto& registers = rows.back().frame.registers;
    if (const auto found = initial->registers.find(reg); found != initial->registers.end())
      registers[reg] = found->second;
    else
      registers.erase(reg);
  };
  while (!in.done()) {
    const auto op = in.value<uint8_t>();
    Frame& frame = rows.back().frame;
    const uint64_t low = op & 0x3f;
    switch (op & 0xc0) {
      case kAdvance:
        advance(low);
        continue;
      case kOffset:
        frame.registers[low] = rule(kOffset, low, uleb(in.uleb()));
        continue;
      case kRestore:
        restore(low);
        continue;
      default:
        break;
    }
    switch (op) {
      case kNop:
        break;
      case kAdvance1:
        advance(in.value<uint8_t>());
        break;
      case kAdvance2:
        advance(in.value<uint16_t>());
        break;
      case kAdvance4:
        advance(in.value<uint32_t>());
        break;
      case kOffsetExtended:
      case kRegister:
      case kOffsetExtendedSf: {  // signed numbers have the same form
        const uint64_t reg = in.uleb();
        const uint64_t where = in.uleb();
        frame.registers[reg] = rule(op, reg, uleb(where));
        break;
      }
      case kRestoreExtended:
        restore(in.uleb());
        break;
      case kUndefined:
      case kSameValue: {
        const uint64_t reg = in.uleb();
        frame.registers[reg] = rule(op, reg, "");
        break;
      }
      case kExpression: {
        const uint64_t reg = in.uleb();
        frame.registers[reg] = rule(op, reg, in.block());
        break;
      }
      case kRememberState:
        remembered.push_back(frame);
        break;
      case kRestoreState: {
        require(!remembered.empty(), "a state is restored that was not remembered");
        const uint64_t arguments = frame.arguments;
        frame = remembered.back();
        frame.arguments = arguments;
        remembered.pop_back();
        break;
      }
      case kDefCfa:
        frame.expression.clear();
        frame.base = in.uleb();
        frame.offset = in.uleb();
        break;
      case kDefCfaRegister:
        require(frame.expression.empty(), "a register takes an expression's place");
        frame.base = in.uleb();
        break;
      case kDefCfaOffset:
        require(frame.expression.empty(), "an offset is added to an expression");
        frame.offset = in.uleb();
        break;
      case kDefCfaExpression:
        frame.expression = in.block();
        break;
      case kArgsSize:
        frame.arguments = in.uleb();
        break;
      default:
        throw std::runtime_error("an instruction is not known");
    }
  }
  return rows;
}

// What makes `to` of `from`.
std::string difference(const Frame& from, const Frame& to) {
  std::string bytes;
  if (!to.expression.empty()) {
    if (from.expression != to.expression) {
      put(&bytes, kDefCfaExpression);
      bytes += to.expression;
    }
  } else if (!from.expression.empty() || (from.base != to.base && from.offset != to.offset)) {
    put(&bytes, kDefCfa);
    put_uleb(&bytes, to.base);
    put_uleb(&bytes, to.offset);
  } else if (from.base != to.base) {
    put(&bytes, kDefCfaRegister);
    put_uleb(&bytes, to.base);
  } else if (from.offset != to.offset) {
    put(&bytes, kDefCfaOffset);
    put_uleb(&bytes, to.offset);
  }
  for (const auto& [reg, how] : to.registers)
    if (const auto found = from.registers.find(reg); found == from.registers.end() || found->second != how)
      bytes += how;
  for (const auto& [reg, how] : from.registers)
    if (!to.registers.contains(reg)) {
      require(reg < 0x40, "a register is out of range");
      put(&bytes, static_cast<uint8_t>(kRestore | reg));
    }
  if (from.arguments != to.arguments) {
    put(&bytes, kArgsSize);
    put_uleb(&bytes, to.arguments);
  }
  return bytes;
}

size_t advance_size(uint64_t by) { return by < 0x40 ? 1 : by < 0x100 ? 2 : by < 0x10000 ? 3 : 5; }
void put_advance(std::string* to, uint64_t by) {
  if (by < 0x40)
    put(to, static_cast<uint8_t>(kAdvance | by));
  else if (by < 0x100)
    put(to, kAdvance1), put(to, static_cast<uint8_t>(by));
  else if (by < 0x10000)
    put(to, kAdvance2), put(to, static_cast<uint16_t>(by));
  else
    put(to, kAdvance4), put(to, static_cast<uint32_t>(by));
}

// An entry's instructions for the given rows; between them anything may be said.
std::string program_of(const std::vector<Row>& rows, uint64_t begin, const Frame& initial) {
  std::string program;
  const Frame* frame = &initial;
  uint64_t at = begin, since = begin;  // where instructions are, and from where on they may say something else
  for (const Row& row : rows) {
    if (const std::string change = difference(*frame, row.frame); !change.empty()) {
      // As late as the same bytes allow.
      uint64_t to = row.begin;
      if (since == begin) to = begin;
      while (to > since && advance_size(to - at) > advance_size(since - at)) --to;
      if (to > at) put_advance(&program, to - at);
      program += change;
      at = to;
      frame = &row.frame;
    }
    since = row.end;
  }
  return program;
}

// The tables of one file.
class Tables {
 public:
  explicit Tables(std::string file) : file_(std::move(file)) {
    require(file_.size() >= sizeof(Elf64_Ehdr) && !std::memcmp(file_.data(), ELFMAG, SELFMAG) &&
                header().e_ident[EI_CLASS] == ELFCLASS64 && header().e_machine == EM_X86_64,
            "not a file for this machine");
    require(header().e_phoff + header().e_phnum * sizeof(Elf64_Phdr) <= file_.size() &&
                header().e_shoff + header().e_shnum * sizeof(Elf64_Shdr) <= file_.size(),
            "headers are missing");
    const Elf64_Shdr& names = section(header().e_shstrndx);
    for (int i = 0; i < header().e_shnum; ++i) {
      const std::string_view name = &file_.at(names.sh_offset + section(i).sh_name);
      if (name == ".eh_frame") frames_ = i;
      if (name == ".eh_frame_hdr") index_ = i;
    }
    require(frames_ > 0, "no unwind tables");
  }

  std::string shrunk() {
    const Elf64_Shdr old = section(frames_);
    begin_ = index_ > 0 ? section(index_).sh_addr : old.sh_addr;
    require(begin_ <= old.sh_addr, "the index is not in front of the tables");
    parse({file_.data() + old.sh_offset, old.sh_size}, old.sh_addr);
    join();
    const uint64_t room = 12 + 8 * kept_.size();
    const uint64_t address = index_ > 0 ? (begin_ + room + 3) / 4 * 4 : begin_;
    std::string bytes = index_ > 0 ? std::string(address - begin_, '\0') : std::string();
    std::vector<std::pair<int32_t, int32_t>> starts;
    write(&bytes, &starts);
    require(begin_ + bytes.size() <= old.sh_addr + old.sh_size, "the tables would grow");
    if (index_ > 0) write_index(&bytes, starts, address);
    replace(bytes, old, address);
    return std::move(file_);
  }

 private:
  struct Common {
    std::string_view bytes;  // behind the length and the zero
    Frame initial;
    size_t personality = 0;  // where it is in bytes
    bool has_language_data = false;
    bool known = false;  // the entries' instructions are understood
    uint64_t address;    // of bytes
    uint64_t written = 0;
  };
  struct Entry {
    uint64_t common;  // by its old address
    uint64_t begin, size, language_data;
    std::string program;
    bool uniform = false;  // one frame at all calls
  };

  Elf64_Ehdr& header() { return *reinterpret_cast<Elf64_Ehdr*>(file_.data()); }
  Elf64_Phdr& segment(int i) { return reinterpret_cast<Elf64_Phdr*>(file_.data() + header().e_phoff)[i]; }
  Elf64_Shdr& section(int i) { return reinterpret_cast<Elf64_Shdr*>(file_.data() + header().e_shoff)[i]; }

  bool is_code(uint64_t address) {
    for (int i = 0; i < header().e_phnum; ++i) {
      const Elf64_Phdr& s = segment(i);
      if (s.p_type == PT_LOAD && (s.p_flags & PF_X) && address - s.p_vaddr < s.p_memsz) return true;
    }
    return false;
  }
  std::string_view code(uint64_t begin, uint64_t end) {
    require(begin <= end, "entries describe the same code");
    for (int i = 0; i < header().e_phnum; ++i) {
      const Elf64_Phdr& s = segment(i);
      if (s.p_type == PT_LOAD && begin - s.p_vaddr < s.p_filesz && end - s.p_vaddr <= s.p_filesz)
        return {file_.data() + s.p_offset + (begin - s.p_vaddr), end - begin};
    }
    throw std::runtime_error("an entry describes what is not in the file");
  }
  // Whether bytes of these instructions can be a call (E8 and a distance, FF /2, FF /3) or a system call (0F 05). Other
  // bytes that look like one leave a row in that could be left out.
  bool may_call(uint64_t begin, uint64_t end) {
    const std::string_view bytes = code(begin, end);
    for (size_t i = 0; i + 1 < bytes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]), next = static_cast<uint8_t>(bytes[i + 1]);
      if (byte == 0x0f && next == 0x05) return true;
      if (byte == 0xff && (next >> 3 & 6) == 2) return true;
      if (byte == 0xe8 && i + 5 <= bytes.size()) {
        int32_t distance;
        std::memcpy(&distance, &bytes[i + 1], sizeof distance);
        if (is_code(begin + i + 5 + distance)) return true;
      }
    }
    return false;
  }

  void parse(std::string_view table, uint64_t address) {
    Reader in(table);
    while (!in.done()) {
      const auto length = in.value<uint32_t>();
      if (length == 0) break;
      require(length != 0xffffffff, "an entry is too long");
      const uint64_t at = address + in.at();
      const std::string_view bytes = in.take(length);
      uint32_t common;
      require(length > 4, "an entry is too short");
      std::memcpy(&common, bytes.data(), sizeof common);
      if (common == 0)
        parse_common(bytes.substr(4), at + 4);
      else
        parse_entry(bytes.substr(4), at + 4, at - common);
    }
  }
  void parse_common(std::string_view bytes, uint64_t address) {
    Common& c = commons_[address - 8];
    c.bytes = bytes;
    c.address = address;
    Reader in(bytes);
    require(in.value<uint8_t>() == 1, "tables of another version");
    std::string augmentation;
    for (char x; (x = in.value<char>()) != 0;) augmentation += x;
    require(augmentation.starts_with('z'), "a common entry does not say how long it is");
    const uint64_t code_unit = in.uleb(), data_unit = in.uleb(), reg = in.uleb();
    const uint64_t data = in.uleb(), end = in.at() + data;
    bool ordinary = code_unit == 1 && data_unit == 0x78 && reg == 16;
    for (char x : augmentation.substr(1)) {
      if (x == 'P') {
        require((in.value<uint8_t>() & 0x7f) == 0x1b, "a personality is not given by its distance");
        c.personality = in.at();
        in.take(4);
      } else if (x == 'L' || x == 'R') {
        require(in.value<uint8_t>() == 0x1b, "an address is not given by its distance");
        c.has_language_data |= x == 'L';
      } else {
        ordinary = false;  // a signal's frame: not entered by a call
        require(x == 'S', "a common entry says what is not known");
      }
    }
    require(in.at() == end, "a common entry has another length");
    if (!ordinary) return;
    c.initial = rows_of(bytes.substr(end), 0, 0, nullptr).back().frame;
    c.known = true;
  }
  void parse_entry(std::string_view bytes, uint64_t address, uint64_t common) {
    const auto found = commons_.find(common);
    require(found != commons_.end(), "an entry has no common one");
    const Common& c = found->second;
    Reader in(bytes);
    const auto distance = in.value<int32_t>();
    Entry e{common, address + distance, in.value<uint32_t>(), 0, {}};
    const uint64_t end = in.uleb() + in.at();
    if (c.has_language_data) {
      const uint64_t at = address + in.at();
      if (const auto to = in.value<int32_t>()) e.language_data = at + to;
    }
    require(in.at() == end, "an entry has another length");
    const std::string_view program = bytes.substr(end);
    if (!c.known) {
      e.program = program;
      kept_.push_back(std::move(e));
      return;
    }
    std::vector<Row> rows = rows_of(program, e.begin, e.begin + e.size, &c.initial);
    std::erase_if(rows, [&](const Row& row) { return row.begin == row.end || !may_call(row.begin, row.end); });
    if (rows.empty()) return;
    e.program = program_of(rows, e.begin, c.initial);
    e.uniform = std::all_of(rows.begin() + 1, rows.end(),
                            [&](const Row& row) { return difference(rows[0].frame, row.frame).empty(); });
    kept_.push_back(std::move(e));
  }

  // Entries in the order of the code; those one after the other that say the same are one, where no call lies
  // between them.
  void join() {
    std::sort(kept_.begin(), kept_.end(), [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
    std::vector<Entry> joined;
    for (Entry& e : kept_) {
      Entry* const last = joined.empty() ? nullptr : &joined.back();
      if (last && last->uniform && e.uniform && last->common == e.common && last->program == e.program &&
          last->language_data == 0 && e.language_data == 0 && !may_call(last->begin + last->size, e.begin))
        last->size = e.begin + e.size - last->begin;
      else
        joined.push_back(std::move(e));
    }
    kept_ = std::move(joined);
  }

  // Bytes of the tables; the first are at begin_.
  void write(std::string* to, std::vector<std::pair<int32_t, int32_t>>* starts) {
    const auto here = [&] { return begin_ + to->size(); };
    const auto distance = [](uint64_t from, uint64_t to) {
      const auto d = static_cast<int64_t>(to - from);
      require(d == static_cast<int32_t>(d), "a distance is too long");
      return static_cast<int32_t>(d);
    };
    for (const Entry& e : kept_) {
      Common& c = commons_.at(e.common);
      if (c.written == 0) {
        c.written = here();
        put(to, static_cast<uint32_t>(c.bytes.size() + 4));
        put(to, uint32_t{0});
        const uint64_t at = here();
        const size_t begin = to->size();
        to->append(c.bytes);
        if (c.personality) {
          int32_t d;
          std::memcpy(&d, c.bytes.data() + c.personality, sizeof d);
          d = distance(at, c.address + d);
          std::memcpy(to->data() + begin + c.personality, &d, sizeof d);
        }
      }
      starts->emplace_back(distance(begin_, e.begin), distance(begin_, here()));
      const size_t data = c.has_language_data ? 4 : 0;
      put(to, static_cast<uint32_t>(4 + 8 + 1 + data + e.program.size()));
      put(to, distance(c.written, here()));
      put(to, distance(here(), e.begin));
      put(to, static_cast<uint32_t>(e.size));
      put(to, static_cast<uint8_t>(data));
      if (c.has_language_data) put(to, e.language_data ? distance(here(), e.language_data) : 0);
      *to += e.program;
    }
    put(to, uint32_t{0});
  }
  // For a search by address, in front of the tables.
  void write_index(std::string* bytes, const std::vector<std::pair<int32_t, int32_t>>& starts, uint64_t address) {
    std::string index("\x01\x1b\x03\x3b", 4);
    put(&index, static_cast<int32_t>(address - begin_ - 4));
    put(&index, static_cast<uint32_t>(starts.size()));
    for (const auto& [begin, entry] : starts) put(&index, begin), put(&index, entry);
    bytes->replace(0, index.size(), index);
  }

  // In the place of the old ones, which end at the end of their segment.
  void replace(const std::string& bytes, const Elf64_Shdr& old, uint64_t address) {
    const uint64_t offset = index_ > 0 ? section(index_).sh_offset : old.sh_offset;
    const uint64_t old_end = old.sh_offset + old.sh_size, end = offset + bytes.size();
    uint64_t page = 1, next = file_.size();
    Elf64_Phdr* own = nullptr;
    for (int i = 0; i < header().e_phnum; ++i) {
      Elf64_Phdr& s = segment(i);
      if (s.p_type != PT_LOAD) continue;
      page = std::max(page, s.p_align);
      if (s.p_offset + s.p_filesz == old_end && s.p_filesz == s.p_memsz) own = &s;
      if (s.p_offset >= old_end) next = std::min(next, s.p_offset);
    }
    require(own && next < file_.size(), "the tables are not at the end of a segment that others follow");
    own->p_filesz = own->p_memsz = end - own->p_offset;
    section(frames_).sh_addr = address;
    section(frames_).sh_offset = offset + (address - begin_);
    section(frames_).sh_size = begin_ + bytes.size() - address;
    section(frames_).sh_addralign = 1;
    if (index_ > 0) section(index_).sh_size = 12 + 8 * kept_.size();
    const uint64_t gone = (next - end) / page * page;
    for (int i = 0; i < header().e_phnum; ++i) {
      if (segment(i).p_offset >= next) segment(i).p_offset -= gone;
      if (segment(i).p_type == PT_GNU_EH_FRAME) segment(i).p_filesz = segment(i).p_memsz = section(index_).sh_size;
    }
    for (int i = 0; i < header().e_shnum; ++i)
      if (section(i).sh_offset >= next) section(i).sh_offset -= gone;
    header().e_shoff -= gone;
    file_.replace(offset, next - gone - offset, bytes + std::string(next - gone - end, '\0'));
    file_.erase(next - gone, gone);
  }

  std::string file_;
  int frames_ = 0, index_ = 0;
  uint64_t begin_ = 0;  // of the index and the tables
  std::map<uint64_t, Common> commons_;
  std::vector<Entry> kept_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: call_frames IN OUT\n";
    return 2;
  }
  try {
    std::ifstream in(argv[1], std::ios::binary);
    const std::string file = Tables(std::string((std::istreambuf_iterator<char>(in)), {})).shrunk();
    std::ofstream out(argv[2], std::ios::binary);
    out << file;
    return out.flush() ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << argv[1] << ": " << e.what() << "\n";
    return 1;
  }
}
