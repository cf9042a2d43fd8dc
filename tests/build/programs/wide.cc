// Wide characters in the locale "C", whose conversions most static programs have from tools/bazel/c_library_parts.cc:
// prints what came of each. argv[1]: a file to write.
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <string>

namespace {

// Characters of both kinds, whole strings, and where the first begins that there is none for.
void strings() {
  wchar_t wide[8];
  char bytes[8];
  std::mbstate_t state{};
  const char* text = "abc";
  const size_t all = std::mbsrtowcs(wide, &text, 8, &state);
  std::printf("%zu %d %d\n", all, !std::wcscmp(wide, L"abc"), text == nullptr);
  text = "ab\xe9";
  const size_t some = std::mbsrtowcs(wide, &text, 8, &state);
  std::printf("%d %d %d\n", some == static_cast<size_t>(-1), errno == EILSEQ, text ? *text & 0xff : 0);
  const wchar_t* from = L"xyz";
  const size_t back = std::wcsrtombs(bytes, &from, 2, &state);
  std::printf("%zu %c%c %d\n", back, bytes[0], bytes[1], from ? static_cast<int>(*from) : 0);
  from = L"x\u20ac";
  std::printf("%d %d\n", static_cast<int>(std::wcsrtombs(bytes, &from, 8, &state)), from ? static_cast<int>(*from) : 0);
  wchar_t one = 0;
  std::printf("%d %d\n", std::mbtowc(&one, "q", 1), static_cast<int>(one));
  std::printf("%d %d %d\n", std::mbtowc(&one, "\x80", 1), std::mbtowc(&one, "", 1), static_cast<int>(one));
  std::printf("%d %d %d\n", std::wctomb(bytes, L'k'), bytes[0], std::wctomb(bytes, 0xe9));
  std::printf("%d %d %d\n", static_cast<int>(std::btowc('b')), static_cast<int>(std::btowc(0x90)), std::wctob(L'w'));
}

// A file of more than a buffer's characters, and characters that ASCII writes in its own way or not at all.
void files(const char* path) {
  std::FILE* file = std::fopen(path, "w");
  std::fwide(file, 1);
  for (int i = 0; i < 20000; ++i) std::fwprintf(file, L"%d,", i);
  std::printf("%d\n", std::fputws(L"\u00a9 \u2026 \u4e00!\n", file) >= 0);
  std::printf("%d", std::ferror(file) != 0);
  std::printf("%d\n", std::fclose(file));
  file = std::fopen(path, "r");
  long characters = 0, sum = 0;
  std::string last;
  for (std::wint_t c; (c = std::fgetwc(file)) != WEOF; ++characters) {
    sum += c * (characters % 7 + 1);
    last += static_cast<char>(c);
  }
  std::fclose(file);
  std::printf("%ld %ld %s", characters, sum, last.substr(last.rfind(',')).c_str());
}

}  // namespace

int main(int, char** argv) {
  strings();
  files(argv[1]);
}
