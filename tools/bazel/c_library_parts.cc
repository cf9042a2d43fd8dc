// What glibc asks for in every static program although few programs get there: 240 KB of character sets, translations,
// the resolver of host names and the loader of shared objects.
//
// Each name here is where such a part is entered, and does what the part would do in a program that does not use it.
// All are weak: a program that calls setlocale, dlopen or getaddrinfo links the real part for other names of it, whose
// definition of the names below then wins. (tests/build/programs/c_library.cc calls them all.) Lost in a program that
// calls none of these are character sets: iconv_open and fopen(name, "r,ccs=CHARSET") fail. And assert and perror print
// nothing once a program has made stderr a stream of wide characters.
//
// With another libc, or another version of glibc, names that it does not ask for are left out by the linker.
#include <pthread.h>
#include <resolv.h>

#include <cstdarg>
#include <cstdio>

#undef _res

#define TESSERA_WEAK __attribute__((weak))

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
