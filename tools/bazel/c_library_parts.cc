// What glibc asks for in every static program although few programs get there: 290 KB of character sets, translations,
// the resolver of host names, the loader of shared objects, and functions for each kind of processor.
//
// Each name here is where such a part is entered, and does what the part would do in a program that does not use it.
// All are weak: a program that calls setlocale, dlopen or getaddrinfo links the real part for other names of it, whose
// definition of the names below then wins. (tests/build/programs/c_library.cc calls them all.) Lost in a program that
// calls none of these are character sets: iconv_open and fopen(name, "r,ccs=CHARSET") fail. And assert and perror print
// nothing once a program has made stderr a stream of wide characters.
//
// With another libc, or another version of glibc, names that it does not ask for are left out by the linker.
#include <gconv.h>
#include <pthread.h>
#include <resolv.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <cwchar>

#undef _res

#define TESSERA_WEAK __attribute__((weak))

extern "C" {

// Writes characters that a set has not in its own way, or not at all.
int __gconv_transliterate(__gconv_step*, __gconv_step_data*, const unsigned char* first, const unsigned char** at,
                          const unsigned char* end, unsigned char** out, size_t* irreversible);

}  // extern "C"

namespace {

// Numbers of type From to those of To, as far as they are characters of ASCII and have room. `replace` is asked where
// they are not: what ends the conversion, or __GCONV_OK.
template <class From, class To, class Replace>
int convert_ascii(__gconv_step_data* data, const unsigned char** in, const unsigned char* end, unsigned char** out,
                  const Replace& replace) {
  unsigned char*& to = out ? *out : data->__outbuf;
  int result = __GCONV_OK;
  while (result == __GCONV_OK) {
    const size_t left = static_cast<size_t>(end - *in);
    if (left < sizeof(From)) return left == 0 ? __GCONV_EMPTY_INPUT : __GCONV_INCOMPLETE_INPUT;
    if (static_cast<size_t>(data->__outbufend - to) < sizeof(To)) return __GCONV_FULL_OUTPUT;
    From c;
    std::memcpy(&c, *in, sizeof c);
    if (c > 0x7f) {
      result = replace(to);
      continue;
    }
    const To converted = static_cast<To>(c);
    std::memcpy(to, &converted, sizeof converted);
    *in += sizeof(From);
    to += sizeof(To);
  }
  return result;
}

}  // namespace

extern "C" {

// Messages are translated once setlocale was called.
TESSERA_WEAK char* __dcigettext(const char*, const char* one, const char* many, int plural, unsigned long n, int) {
  return const_cast<char*>(plural && n != 1 ? many : one);
}
TESSERA_WEAK pthread_rwlock_t __libc_setlocale_lock = PTHREAD_RWLOCK_INITIALIZER;

// Streams convert characters between sets in other locales than "C".
TESSERA_WEAK int __gconv_lock = 0;
TESSERA_WEAK void __gconv_release_step(void*) {}
TESSERA_WEAK int __gconv_close_transform(void*, size_t) { return 0; }
TESSERA_WEAK int __gconv_find_transform(const char*, const char*, void**, size_t*, int) {
  constexpr int kNoConversion = 1;
  return kNoConversion;
}

// Between ASCII, the character set of the locale "C", and wide characters: a table of all such conversions has these
// three. They keep no state; so there is nothing to do for the calls that end one (`flush`).
TESSERA_WEAK wint_t __gconv_btwoc_ascii(__gconv_step*, unsigned char c) { return c > 0x7f ? WEOF : c; }
TESSERA_WEAK int __gconv_transform_ascii_internal(__gconv_step*, __gconv_step_data* data, const unsigned char** in,
                                                  const unsigned char* end, unsigned char** out, size_t*, int flush,
                                                  int) {
  if (flush) return __GCONV_OK;
  return convert_ascii<unsigned char, wchar_t>(data, in, end, out, [](auto) { return __GCONV_ILLEGAL_INPUT; });
}
TESSERA_WEAK int __gconv_transform_internal_ascii(__gconv_step* step, __gconv_step_data* data, const unsigned char** in,
                                                  const unsigned char* end, unsigned char** out, size_t* irreversible,
                                                  int flush, int) {
  if (flush) return __GCONV_OK;
  const unsigned char* const first = *in;
  return convert_ascii<char32_t, char>(data, in, end, out, [&](unsigned char*& to) {
    if (!(data->__flags & __GCONV_TRANSLIT)) return static_cast<int>(__GCONV_ILLEGAL_INPUT);
    return __gconv_transliterate(step, data, first, in, end, &to, irreversible);
  });
}

// To stderr, as for all streams of bytes.
TESSERA_WEAK int __fxprintf(FILE* file, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = std::vfprintf(file ? file : stderr, format, arguments);
  va_end(arguments);
  return written;
}

// Where shared objects are searched, which of them has an address (null: the program itself), and with which rights
// stacks are made when one wants to execute them.
TESSERA_WEAK void _dl_init_paths(const char*, const char*, const char*, const char*) {}
TESSERA_WEAK void* _dl_find_dso_for_object(size_t) { return nullptr; }
TESSERA_WEAK int __stack_prot = 0x01000000;  // PROT_GROWSDOWN

// A thread's state of the resolver.
TESSERA_WEAK struct __res_state _res;
TESSERA_WEAK __thread struct __res_state* __libc_resp = &_res;

}  // extern "C"

// Functions that programs seldom call, and glibc itself for short strings: of each it has one for each of a dozen kinds
// of processors. A loop must not become a call of what it stands for.
#define TESSERA_STRING_PART(name, result, ...)                                          \
  extern "C" result part_##name(__VA_ARGS__) noexcept;                                  \
  extern "C" TESSERA_WEAK result outer_##name(__VA_ARGS__) noexcept __asm__(#name)      \
      __attribute__((alias("part_" #name)));                                            \
  extern "C" TESSERA_WEAK result inner_##name(__VA_ARGS__) noexcept __asm__("__" #name) \
      __attribute__((alias("part_" #name)));                                            \
  extern "C" __attribute__((optimize("no-tree-loop-distribute-patterns"))) result part_##name(__VA_ARGS__) noexcept

TESSERA_STRING_PART(strchrnul, const char*, const char* s, int c) {
  while (*s && *s != static_cast<char>(c)) ++s;
  return s;
}
TESSERA_STRING_PART(rawmemchr, const char*, const char* s, int c) {
  while (*s != static_cast<char>(c)) ++s;
  return s;
}
TESSERA_STRING_PART(stpcpy, char*, char* to, const char* from) {
  while ((*to = *from++)) ++to;
  return to;
}
TESSERA_STRING_PART(wcslen, size_t, const wchar_t* s) {
  size_t n = 0;
  while (s[n]) ++n;
  return n;
}
TESSERA_STRING_PART(wcsnlen, size_t, const wchar_t* s, size_t most) {
  size_t n = 0;
  while (n < most && s[n]) ++n;
  return n;
}
TESSERA_STRING_PART(wmemchr, const wchar_t*, const wchar_t* s, wchar_t c, size_t n) {
  for (; n > 0; --n, ++s)
    if (*s == c) return s;
  return nullptr;
}
