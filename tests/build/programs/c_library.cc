// What tools/bazel/c_library_parts.cc leaves out of most static programs is whole in one that uses it: prints "whole".
#include <arpa/inet.h>
#include <dlfcn.h>
#include <iconv.h>
#include <libintl.h>
#include <netdb.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <thread>

namespace {

int fail(const char* what) {
  std::fprintf(stderr, "%s failed\n", what);
  return 1;
}

// Two bytes of UTF-8 are a character in such a locale, and two in "C".
bool knows_characters() {
  wchar_t text[4];
  if (std::mbstowcs(text, "\xc3\xa9", 4) == 1) return false;
  return std::setlocale(LC_ALL, "C.UTF-8") && std::mbstowcs(text, "\xc3\xa9", 4) == 1 && text[0] == 0xe9 &&
         !std::strcmp(gettext("whole"), "whole");
}

bool converts() {
  char in[] = "\xc3\xa9", out[4];
  char *from = in, *to = out;
  size_t left = 2, room = 4;
  const iconv_t converter = iconv_open("UCS-4LE", "UTF-8");
  if (converter == reinterpret_cast<iconv_t>(-1)) return false;
  return iconv(converter, &from, &left, &to, &room) == 0 && !std::memcmp(out, "\xe9\0\0", 4) && !iconv_close(converter);
}

// Streams of wide characters, and of another character set.
bool writes(const char* path) {
  std::FILE* file = std::fopen(path, "w,ccs=UTF-8");
  if (!file || std::fwprintf(file, L"%lc %.2f\n", 0xe9, 0.5) != 7 || std::fclose(file)) return false;
  char line[16];
  file = std::fopen(path, "r");
  return file && std::fgets(line, sizeof line, file) && !std::strcmp(line, "\xc3\xa9 0.50\n") && !std::fclose(file);
}

bool resolves() {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_family = AF_INET;
  if (getaddrinfo("127.0.0.1", nullptr, &hints, &found)) return false;
  const bool right = reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
  freeaddrinfo(found);
  return right;
}

}  // namespace

int main(int, char** argv) {
  if (!knows_characters()) return fail("setlocale");
  if (!converts()) return fail("iconv");
  if (!writes(argv[1])) return fail("fopen");
  bool there = false;
  std::thread([&] { there = resolves(); }).join();
  if (!there || !resolves()) return fail("getaddrinfo");
  // What is missing is named by the loader.
  if (dlopen("libtessera_is_not_here.so", RTLD_NOW) || !std::strstr(dlerror(), "libtessera_is_not_here.so"))
    return fail("dlopen");
  std::puts("whole");
  return 0;
}
