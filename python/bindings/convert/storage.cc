#include "python/bindings/convert/storage.h"

#include <fcntl.h>
#include <structmember.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "python/bindings/args.h"
#include "python/bindings/buffer.h"
#include "python/bindings/calls.h"
#include "python/bindings/types.h"
#include "tensor/core/device_hooks.h"
#include "tensor/core/rare/storage_watch.h"

namespace tessera::python {

PyTypeObject* StorageType = nullptr;

namespace {

struct PyStorage {
  PyObject_HEAD StorageImpl* impl;
  PyObject* dict;
  PyObject* weakrefs;
};
PyStorage* as(PyObject* o) { return reinterpret_cast<PyStorage*>(o); }
StorageImpl& impl_of(PyObject* o) { return *as(o)->impl; }
char* bytes_of(PyObject* o) { return static_cast<char*>(impl_of(o).data()); }

PyObject* attach(PyTypeObject* type, Storage s) {
  auto* p = as(check(type->tp_alloc(type, 0)));
  p->impl = s.leak();
  p->impl->pyobject.store(p, std::memory_order_release);
  return reinterpret_cast<PyObject*>(p);
}

// --- addresses that others have ---

// How many hold the address of a storage, which lives as long, and what it was like before.
struct Held {
  int count = 0;
  bool resizable = false;
};
struct HeldStorages {
  std::mutex mutex;
  std::unordered_map<StorageImpl*, Held> held;
};
HeldStorages& held_storages() {
  static auto* h = new HeldStorages;
  return *h;
}
void check_not_held(StorageImpl& s) {
  HeldStorages& all = held_storages();
  const std::lock_guard lock(all.mutex);
  TESSERA_CHECK(!all.held.count(&s),
                "a storage can't move to shared memory while somebody has its address (an array, a buffer)");
}

// --- memory that processes share ---

// The memory's own file, while it has one, is closed with it. A copy of this in a forked process is not the owner.
struct Mapping {
  size_t length;
  int file = -1;
  pid_t owner = 0;
  uint64_t given = 0;     // number under which the file was given away
  std::string name = {};  // of the file that it shares
};
constexpr int kMostFiles = 64;  // that storages keep open in a process: descriptors are few
std::atomic<int> g_open_files{0};

// The numbers of files that were given away and whose memory somebody here still has.
class GivenFiles {
 public:
  uint64_t add() {
    const std::lock_guard lock(mutex_);
    numbers_.insert(++last_);
    return last_;
  }
  void remove(uint64_t number) {
    const std::lock_guard lock(mutex_);
    numbers_.erase(number);
  }
  bool has(uint64_t number) {
    const std::lock_guard lock(mutex_);
    return numbers_.count(number) != 0;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<uint64_t> numbers_;
  uint64_t last_ = 0;
};
GivenFiles& given_files() {
  static auto* g = new GivenFiles;
  return *g;
}

int release_file(Mapping* m) {
  const int file = std::exchange(m->file, -1);
  if (file >= 0) g_open_files.fetch_sub(1, std::memory_order_relaxed);
  return file;
}
void unmap(void* data, void* context, size_t) {
  auto* m = static_cast<Mapping*>(context);
  if (data) munmap(data, m->length);
  if (const int file = release_file(m); file >= 0) close(file);
  if (m->given) given_files().remove(m->given);
  delete m;
}
enum Sharing { kPrivate, kShared, kOurs };  // kOurs: the file is nobody else's, so that writing to it is no sharing
Storage map_descriptor(int fd, size_t nbytes, Sharing sharing) {
  if (nbytes == 0) return StorageImpl::allocate(0);
  void* data = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, sharing == kPrivate ? MAP_PRIVATE : MAP_SHARED, fd, 0);
  TESSERA_CHECK(data != MAP_FAILED, "unable to mmap ", nbytes, " bytes: ", std::strerror(errno));
  Storage s = StorageImpl::wrap(data, nbytes, Device(), &unmap, new Mapping{nbytes});
  if (sharing == kShared) s->mark_shared_memory();
  return s;
}
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Storage from_file(const std::string& name, bool shared, size_t nbytes) {
  Descriptor fd(open(name.c_str(), shared ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0600));
  TESSERA_CHECK(fd.get() >= 0, "unable to open file <", name, "> in ", shared ? "read-write" : "read-only",
                " mode: ", std::strerror(errno), " (", errno, ")");
  struct stat info;
  TESSERA_CHECK(fstat(fd.get(), &info) == 0, "unable to stat the file <", name, ">: ", std::strerror(errno));
  if (nbytes == 0) nbytes = static_cast<size_t>(info.st_size);
  if (static_cast<size_t>(info.st_size) < nbytes) {
    TESSERA_CHECK(shared, "file <", name, "> size <", info.st_size, "> is smaller than the required mapping size <",
                  nbytes, ">");
    TESSERA_CHECK(ftruncate(fd.get(), static_cast<off_t>(nbytes)) == 0, "unable to resize file <", name,
                  "> to the right size: ", std::strerror(errno));
  }
  Storage s = map_descriptor(fd.get(), nbytes, shared ? kShared : kPrivate);
  if (shared && s->deleter() == &unmap) static_cast<Mapping*>(s->context())->name = name;
  return s;
}

// Memory in an anonymous file of its own; null where the system gives none, or where as many as are allowed are open.
Storage memory_in_file(size_t nbytes) {
  if (nbytes == 0 || g_open_files.load(std::memory_order_relaxed) >= kMostFiles) return nullptr;
  Descriptor fd(memfd_create("tessera-batch", MFD_CLOEXEC));
  if (fd.get() < 0 || ftruncate(fd.get(), static_cast<off_t>(nbytes)) != 0) return nullptr;
  void* data = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return nullptr;
  g_open_files.fetch_add(1, std::memory_order_relaxed);
  auto* m = new Mapping{nbytes, fd.release(), getpid()};
  return StorageImpl::wrap(data, nbytes, Device(), &unmap, m, /*resizable=*/true);
}
// The file that the memory is, which becomes the caller's; null if it is none. From then on writes to the memory do not
// reach the file.
Mapping* give_file(StorageImpl& s, int* fd) {
  if (s.deleter() != &unmap) return nullptr;
  auto* m = static_cast<Mapping*>(s.context());
  if (m->file < 0 || m->owner != getpid()) return nullptr;
  constexpr int kInPlace = MAP_PRIVATE | MAP_FIXED;
  if (mmap(s.data(), m->length, PROT_READ | PROT_WRITE, kInPlace, m->file, 0) == MAP_FAILED) return nullptr;
  m->given = given_files().add();
  *fd = release_file(m);
  return m;
}

// --- construction ---

size_t size_arg(PyObject* o) {
  const int64_t n = int_arg("UntypedStorage.__new__", "size", 1, o);
  TESSERA_CHECK(n >= 0, "Storage size must not be negative, got ", n);
  return static_cast<size_t>(n);
}

Storage from_sequence(PyObject* o) {
  Ref fast = Ref::steal(PySequence_Fast(o, "expected a sequence of ints"));
  if (!fast) {
    PyErr_Clear();
    throw TypeError(
        str_cat("UntypedStorage(): argument must be an int or a sequence of bytes, not ", Py_TYPE(o)->tp_name));
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.get());
  Storage s = StorageImpl::allocate(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    int64_t v;
    PyObject* e = PySequence_Fast_GET_ITEM(fast.get(), i);
    if (!to_int64(e, &v))
      throw TypeError(
          str_cat("tried to construct a storage from a sequence (UntypedStorage), but one of the items was of type ",
                  Py_TYPE(e)->tp_name, " instead of int"));
    static_cast<uint8_t*>(s->data())[i] = static_cast<uint8_t>(v);
  }
  return s;
}

PyObject* storage_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject* device = kwargs ? PyDict_GetItemString(kwargs, "device") : nullptr;
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n > 1 || (kwargs && PyDict_Size(kwargs) != (device != nullptr)))
      throw TypeError(
          "UntypedStorage() received an invalid combination of arguments: expected (*, torch.device device=None), (int "
          "size, *, torch.device device=None) or (Sequence data, *, torch.device device=None)");
    const Device d = device && device != Py_None ? to_device(device) : Device();
    Storage s;
    if (n == 1 && !PyIndex_Check(PyTuple_GET_ITEM(args, 0))) {
      s = from_sequence(PyTuple_GET_ITEM(args, 0));
    } else {
      const size_t nbytes = n ? size_arg(PyTuple_GET_ITEM(args, 0)) : 0;
      s = d.is_cpu()    ? StorageImpl::allocate(nbytes)
          : d.is_meta() ? StorageImpl::without_data(d, nbytes)
                        : empty_tensor(IntVector{static_cast<int64_t>(nbytes)}, {}, DType::kUInt8, d).storage();
    }
    return attach(type, std::move(s));
  });
}

void storage_dealloc(PyObject* self) {
  PyStorage* p = as(self);
  if (p->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(p->dict);
  if (p->impl) {
    p->impl->pyobject.store(nullptr, std::memory_order_release);
    p->impl->release();
  }
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// --- as a sequence of bytes ---

Py_ssize_t storage_length(PyObject* self) { return static_cast<Py_ssize_t>(impl_of(self).nbytes()); }

NamedOp g_copy("aten::copy_"), g_fill("aten::fill_.Scalar");
// The bytes as a tensor, by which operators reach storages on devices.
Tensor as_tensor(const Storage& s) {
  const int64_t size[] = {static_cast<int64_t>(s->nbytes())}, stride[] = {1};
  return tensor_from_storage(s, size, stride, 0, DType::kUInt8);
}
bool is_on_device(PyObject* self) { return !impl_of(self).device().is_cpu() && !impl_of(self).device().is_meta(); }

void check_has_data(PyObject* self) {
  TESSERA_CHECK(impl_of(self).device().is_cpu(), "this storage lives on device ", impl_of(self).device().str(),
                ": its bytes can't be read from Python");
}

// The elements of a slice as an offset and a length. ValueError for a step.
void slice_range(PyObject* self, PyObject* key, Py_ssize_t* start, Py_ssize_t* length) {
  Py_ssize_t stop, step;
  check(PySlice_Unpack(key, start, &stop, &step));
  *length = PySlice_AdjustIndices(storage_length(self), start, &stop, step);
  TESSERA_CHECK(step == 1, "Trying to slice with a step of ", step, ", but only a step of 1 is supported");
}
Py_ssize_t element_index(PyObject* self, PyObject* key) {
  const int64_t n = storage_length(self);
  int64_t i;
  if (!to_int64(key, &i)) throw TypeError(str_cat("can't index a torch.UntypedStorage with ", Py_TYPE(key)->tp_name));
  TESSERA_CHECK_INDEX(i >= -n && i < n, "index ", i, " out of range for storage of size ", n);
  return static_cast<Py_ssize_t>(i < 0 ? i + n : i);
}
void release_owner(void*, void* context, size_t) {
  with_python([&] { Py_DECREF(static_cast<PyObject*>(context)); });
}
struct Parent {
  Storage storage;
};
void release_parent(void*, void* context, size_t) { delete static_cast<Parent*>(context); }

PyObject* storage_getitem(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    if (!is_on_device(self)) check_has_data(self);
    if (!PySlice_Check(key)) {
      uint8_t byte;
      const char* source = bytes_of(self) + element_index(self, key);
      if (is_on_device(self))
        device_hooks(impl_of(self).device().type).read(&byte, source, impl_of(self).device(), 1);
      else
        byte = static_cast<uint8_t>(*source);
      return PyLong_FromLong(byte);
    }
    Py_ssize_t start, length;
    slice_range(self, key, &start, &length);
    auto* parent = new Parent{unwrap_storage(self)};  // a window: it writes to the same bytes
    return attach(StorageType, StorageImpl::wrap(bytes_of(self) + start, static_cast<size_t>(length),
                                                 impl_of(self).device(), &release_parent, parent));
  });
}
int storage_setitem(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    if (!is_on_device(self)) check_has_data(self);
    if (!value) throw TypeError("torch.UntypedStorage does not support deleting items");
    int64_t v;
    if (!to_int64(value, &v))
      throw TypeError(
          str_cat("can only set storage content with a int types, but got ", Py_TYPE(value)->tp_name, " instead"));
    Py_ssize_t start, length = 1;
    if (PySlice_Check(key))
      slice_range(self, key, &start, &length);
    else
      start = element_index(self, key);
    if (length && is_on_device(self)) {
      const int64_t size[] = {length}, stride[] = {1};
      g_fill(tensor_from_storage(unwrap_storage(self), size, stride, start, DType::kUInt8), Scalar(v & 0xff));
    } else if (length)
      std::memset(bytes_of(self) + start, static_cast<int>(v & 0xff), static_cast<size_t>(length));
  });
}

int storage_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  const int r = guarded_int([&] {
    if (!impl_of(self).device().is_cpu()) throw BufferError("only storages in CPU memory have a buffer");
    static char empty;
    void* data = impl_of(self).nbytes() ? impl_of(self).data() : &empty;
    check(PyBuffer_FillInfo(view, self, data, storage_length(self), 0, flags));
    view->internal = new AddressHold(unwrap_storage(self));
  });
  if (r < 0) view->obj = nullptr;
  return r;
}
void storage_releasebuffer(PyObject*, Py_buffer* view) { delete static_cast<AddressHold*>(view->internal); }

// --- attributes ---

PyObject* get_device(PyObject* self, void*) {
  return guarded([&] { return wrap(impl_of(self).device()); });
}
PyObject* get_cdata(PyObject* self, void*) { return PyLong_FromVoidPtr(as(self)->impl); }
PyObject* get_is_cuda(PyObject* self, void*) { return to_python(impl_of(self).device().is_cuda()); }
// Weak references, as addresses of watches: _weak_ref() -> int holds one until _free_weak_ref(int).
PyObject* py_weak_ref(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromVoidPtr(watch_storage(impl_of(self)).leak()); });
}
StorageWatch* watch_of(PyObject* number) {
  auto* const watch = static_cast<StorageWatch*>(PyLong_AsVoidPtr(number));
  if (!watch && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "0 is no weak reference of a storage");
  return watch;
}
PyObject* py_free_weak_ref(PyObject*, PyObject* number) {
  StorageWatch* const watch = watch_of(number);
  if (!watch) return nullptr;
  watch->release();
  return none();
}
PyObject* py_expired(PyObject*, PyObject* number) {
  const StorageWatch* const watch = watch_of(number);
  return watch ? to_python(watch->ended.load(std::memory_order_acquire)) : nullptr;
}
PyObject* get_filename(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const StorageImpl& s = impl_of(self);
    const auto* m = s.deleter() == &unmap ? static_cast<const Mapping*>(s.context()) : nullptr;
    return m && !m->name.empty() ? PyUnicode_DecodeFSDefault(m->name.c_str()) : none();
  });
}
PyGetSetDef g_getset[] = {
    {"filename", get_filename, nullptr, "The file whose memory from_file(..., shared=True) shares; otherwise None.",
     nullptr},
    {"device", get_device, nullptr, nullptr, nullptr},
    {"_cdata", get_cdata, nullptr,
     "Identity of the memory: equal for all Python objects of one storage while it lives; later another may get it.",
     nullptr},
    {"is_cuda", get_is_cuda, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// --- methods ---

PyObject* py_nbytes(PyObject* self, PyObject*) { return PyLong_FromSize_t(impl_of(self).nbytes()); }
PyObject* py_element_size(PyObject*, PyObject*) { return PyLong_FromLong(1); }
PyObject* py_data_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(impl_of(self).data()); }
PyObject* py_resizable(PyObject* self, PyObject*) { return to_python(impl_of(self).resizable()); }
PyObject* py_is_shared(PyObject* self, PyObject*) { return to_python(impl_of(self).is_shared_memory()); }
PyObject* py_resize(PyObject* self, PyObject* size) {
  return guarded([&] {
    impl_of(self).resize(size_arg(size));
    return Py_NewRef(self);
  });
}
PyObject* py_fill(PyObject* self, PyObject* value) {
  return guarded([&] {
    if (!is_on_device(self)) check_has_data(self);
    int64_t v;
    if (!to_int64(value, &v)) throw TypeError(str_cat("fill_(): expected an int, got ", Py_TYPE(value)->tp_name));
    if (is_on_device(self)) {
      g_fill(as_tensor(unwrap_storage(self)), Scalar(v & 0xff));
      return Py_NewRef(self);
    }
    if (impl_of(self).nbytes()) std::memset(impl_of(self).data(), static_cast<int>(v & 0xff), impl_of(self).nbytes());
    return Py_NewRef(self);
  });
}
PyObject* py_copy(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *source, *non_blocking = nullptr;
    if (!PyArg_ParseTuple(args, "O|O:copy_", &source, &non_blocking)) return nullptr;
    const Storage from = storage_of(source);
    if (!from) throw TypeError(str_cat("copy_(): argument 'source' must be a storage, not ", Py_TYPE(source)->tp_name));
    TESSERA_CHECK(from->nbytes() == impl_of(self).nbytes(), "size does not match, self was ", impl_of(self).nbytes(),
                  " bytes but src was ", from->nbytes(), " bytes");
    if (is_on_device(self) ||
        (impl_of(self).device().is_cpu() && !from->device().is_cpu() && !from->device().is_meta())) {
      const int wait = non_blocking ? PyObject_IsTrue(non_blocking) : 0;
      check(wait);
      if (from->nbytes()) g_copy(as_tensor(unwrap_storage(self)), as_tensor(from), wait == 1);
      return Py_NewRef(self);
    }
    check_has_data(self);
    TESSERA_CHECK(from->device().is_cpu(), "a storage on device ", from->device().str(), " has no data to copy");
    if (from->nbytes()) std::memmove(impl_of(self).data(), from->data(), from->nbytes());
    return Py_NewRef(self);
  });
}
PyObject* py_share(PyObject* self, PyObject*) {
  return guarded([&] {
    share_storage(impl_of(self));
    return Py_NewRef(self);
  });
}
// _new_with_file(): a descriptor of shared memory with the bytes, for another process.
PyObject* py_share_fd(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    check_has_data(self);
    check_not_held(impl_of(self));
    const size_t n = impl_of(self).nbytes();
    Descriptor fd(memfd_create("tessera", MFD_CLOEXEC));
    TESSERA_CHECK(fd.get() >= 0 && ftruncate(fd.get(), static_cast<off_t>(n)) == 0, "unable to make shared memory of ",
                  n, " bytes: ", std::strerror(errno));
    Storage shared = map_descriptor(fd.get(), n, kShared);
    if (n) std::memcpy(shared->data(), impl_of(self).data(), n);
    impl_of(self).swap_memory(*shared);
    if (!n) impl_of(self).mark_shared_memory();
    return Py_BuildValue("(in)", fd.release(), static_cast<Py_ssize_t>(n));
  });
}
PyObject* py_new_shared_fd(PyObject* cls, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int fd;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "in:_new_shared_fd_cpu", &fd, &n)) return nullptr;
    TESSERA_CHECK_VALUE(n >= 0, "a storage can't have ", n, " bytes");
    struct stat info;
    TESSERA_CHECK(fstat(fd, &info) == 0 && info.st_size >= n, "the descriptor ", fd, " holds no shared memory of ", n,
                  " bytes");
    return attach(reinterpret_cast<PyTypeObject*>(cls), map_descriptor(fd, static_cast<size_t>(n), kShared));
  });
}
PyObject* py_new_shared(PyObject* cls, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "n:_new_shared", &n)) return nullptr;
    TESSERA_CHECK_VALUE(n >= 0, "a storage can't have ", n, " bytes");
    Storage s = StorageImpl::allocate(static_cast<size_t>(n));
    share_storage(*s);
    return attach(reinterpret_cast<PyTypeObject*>(cls), std::move(s));
  });
}
// Batches go from process to process by these. _new_in_file(bytes) -> storage or None;
// _give_file() -> (descriptor, number) or None; _is_kept(number): whether somebody here still has the memory;
// _over_file(descriptor, bytes, alone) -> storage.
PyObject* py_new_in_file(PyObject* cls, PyObject* size) {
  return guarded([&]() -> PyObject* {
    Storage s = memory_in_file(size_arg(size));
    return s ? attach(reinterpret_cast<PyTypeObject*>(cls), std::move(s)) : none();
  });
}
PyObject* py_give_file(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    int fd;
    const Mapping* m = give_file(impl_of(self), &fd);
    return m ? check(Py_BuildValue("(iK)", fd, static_cast<unsigned long long>(m->given))) : none();
  });
}
PyObject* py_is_kept(PyObject*, PyObject* number) {
  return guarded([&]() -> PyObject* {
    const unsigned long long n = PyLong_AsUnsignedLongLong(number);
    if (n == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return nullptr;
    return to_python(given_files().has(n));
  });
}
PyObject* py_over_file(PyObject* cls, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int fd, alone;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "inp:_over_file", &fd, &n, &alone)) return nullptr;
    TESSERA_CHECK_VALUE(n >= 0, "a storage can't have ", n, " bytes");
    struct stat info;
    TESSERA_CHECK(fstat(fd, &info) == 0 && info.st_size >= n, "the descriptor ", fd, " is of no file of ", n, " bytes");
    Storage s = map_descriptor(fd, static_cast<size_t>(n), alone ? kOurs : kPrivate);
    s->set_resizable(true);
    return attach(reinterpret_cast<PyTypeObject*>(cls), std::move(s));
  });
}
PyObject* py_from_file(PyObject* cls, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* const names[] = {"filename", "shared", "nbytes", nullptr};
    PyObject* name;
    int shared = 0;
    Py_ssize_t n = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|pn:from_file", const_cast<char**>(names), PyUnicode_FSConverter,
                                     &name, &shared, &n))
      return nullptr;
    Ref path = Ref::steal(name);
    TESSERA_CHECK(n >= 0, "the size of a file can't be negative, got ", n);
    return attach(reinterpret_cast<PyTypeObject*>(cls),
                  from_file(PyBytes_AS_STRING(path.get()), shared, static_cast<size_t>(n)));
  });
}
PyObject* py_from_buffer(PyObject* cls, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* const names[] = {"buffer", "byte_order", "count", "offset", "dtype", nullptr};
    PyObject *buffer, *order = nullptr, *dtype = nullptr;
    Py_ssize_t count = -1, offset = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OnnO:from_buffer", const_cast<char**>(names), &buffer, &order,
                                     &count, &offset, &dtype))
      return nullptr;
    const Buffer held(buffer, PyBUF_SIMPLE);
    TESSERA_CHECK_VALUE(offset >= 0 && offset <= held.size(),
                        "offset must be non-negative and no greater than buffer length (", held.size(), "), but got ",
                        offset);
    const size_t size = static_cast<size_t>(item_size(dtype_arg("from_buffer", dtype).value_or(DType::kUInt8)));
    const size_t room = static_cast<size_t>(held.size() - offset);
    TESSERA_CHECK_VALUE(count >= 0 || room % size == 0, "buffer size (", held.size(),
                        ") must be a multiple of element size (", size, ")");
    TESSERA_CHECK_VALUE(count < 0 || static_cast<size_t>(count) <= room / size, "buffer has only ", room / size,
                        " elements after offset ", offset, ", but specified a size of ", count);
    const size_t nbytes = count < 0 ? room : static_cast<size_t>(count) * size;
    Storage s = StorageImpl::allocate(nbytes);
    if (nbytes) std::memcpy(s->data(), held.bytes().data() + offset, nbytes);
    return attach(reinterpret_cast<PyTypeObject*>(cls), std::move(s));
  });
}

PyObject* py_is_pinned(PyObject* self, PyObject*) {
  return guarded([&] { return to_python(is_pinned(impl_of(self))); });
}
// _over_memory(address, nbytes, device, owner): memory of another library, which `owner` keeps.
PyObject* py_over_memory(PyObject* cls, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *address, *device, *owner;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "OnOO:_over_memory", &address, &n, &device, &owner)) return nullptr;
    void* data = PyLong_AsVoidPtr(address);
    if (!data && PyErr_Occurred()) return nullptr;
    TESSERA_CHECK_VALUE(n >= 0, "a storage can't have ", n, " bytes");
    const Device d = complete_device(to_device(device));
    return attach(reinterpret_cast<PyTypeObject*>(cls),
                  StorageImpl::wrap(data, static_cast<size_t>(n), d, &release_owner, Py_NewRef(owner)));
  });
}

PyMethodDef g_methods[] = {
    {"nbytes", py_nbytes, METH_NOARGS, "Size in bytes."},
    {"size", py_nbytes, METH_NOARGS, "Size in bytes."},
    {"element_size", py_element_size, METH_NOARGS, nullptr},
    {"data_ptr", py_data_ptr, METH_NOARGS, "Address of the first byte."},
    {"_data_ptr", py_data_ptr, METH_NOARGS, nullptr},
    {"resizable", py_resizable, METH_NOARGS, nullptr},
    {"resize_", py_resize, METH_O, "Changes the size to a number of bytes; the first ones are kept."},
    {"_is_pinned", py_is_pinned, METH_NOARGS, nullptr},
    {"_over_memory", py_over_memory, METH_VARARGS | METH_CLASS,
     "A storage over memory of another library, which an object keeps."},
    {"fill_", py_fill, METH_O, "Sets every byte."},
    {"copy_", py_copy, METH_VARARGS, "Copies the bytes of another storage of the same size."},
    {"is_shared", py_is_shared, METH_NOARGS, "True if child processes see the same memory."},
    {"share_memory_", py_share, METH_NOARGS,
     "Moves the bytes to memory that other processes can share; returns the storage."},
    {"_share_fd_cpu_", py_share_fd, METH_NOARGS,
     "(descriptor, bytes) of shared memory that the storage now lies in. The caller closes the descriptor."},
    {"_new_shared_fd_cpu", py_new_shared_fd, METH_VARARGS | METH_CLASS,
     "A storage over a descriptor made by _share_fd_cpu_, perhaps in another process."},
    {"_new_shared", as_c_function(py_new_shared), METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {"_new_in_file", py_new_in_file, METH_O | METH_CLASS,
     "A storage of so many uninitialised bytes in an anonymous file; None where there is none to be had."},
    {"_give_file", py_give_file, METH_NOARGS,
     "(descriptor, number) of the file that the storage was made in, once; the caller closes it. None if it has none."},
    {"_weak_ref", py_weak_ref, METH_NOARGS,
     "A weak reference, as a number: the same for all of a storage while one is held."},
    {"_free_weak_ref", py_free_weak_ref, METH_O | METH_STATIC, "Gives one up that _weak_ref gave."},
    {"_expired", py_expired, METH_O | METH_STATIC, "Whether the storage of a weak reference has ended."},
    {"_is_kept", py_is_kept, METH_O | METH_STATIC,
     "Whether the memory whose file was given away under this number is still there."},
    {"_over_file", py_over_file, METH_VARARGS | METH_CLASS,
     "A storage over the bytes of a file of which a descriptor is given; a copy, when written to, "
     "unless the file is nobody else's (the last argument)."},
    {"from_file", as_c_function(py_from_file), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "A storage over a memory-mapped file."},
    {"from_buffer", as_c_function(py_from_buffer), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "A storage with a copy of a buffer's bytes."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool is_untyped_storage(PyObject* o) { return PyObject_TypeCheck(o, StorageType); }
const Storage& unwrap_storage(PyObject* o) { return reinterpret_cast<const Storage&>(as(o)->impl); }

PyObject* wrap(const Storage& s) {
  if (!s) return none();
  if (auto* known = static_cast<PyObject*>(s->pyobject.load(std::memory_order_acquire))) return Py_NewRef(known);
  return attach(StorageType, s);
}

Storage storage_of(PyObject* o) {
  if (is_untyped_storage(o)) return unwrap_storage(o);
  Ref inner = Ref::steal(PyObject_GetAttrString(o, "_untyped_storage"));
  if (!inner) {
    PyErr_Clear();
    return nullptr;
  }
  return is_untyped_storage(inner.get()) ? unwrap_storage(inner.get()) : nullptr;
}

AddressHold::AddressHold(Storage s) : storage_(std::move(s)) {
  HeldStorages& all = held_storages();
  const std::lock_guard lock(all.mutex);
  Held& h = all.held[storage_.get()];
  if (h.count++ > 0) return;
  h.resizable = storage_->resizable();
  storage_->set_resizable(false);
}
AddressHold::~AddressHold() {
  HeldStorages& all = held_storages();
  const std::lock_guard lock(all.mutex);
  const auto at = all.held.find(storage_.get());
  if (--at->second.count > 0) return;
  storage_->set_resizable(at->second.resizable);
  all.held.erase(at);
}
Ref AddressHold::capsule(Storage s) {
  auto hold = std::make_unique<AddressHold>(std::move(s));
  PyObject* capsule = check(PyCapsule_New(
      hold.get(), nullptr, [](PyObject* c) { delete static_cast<AddressHold*>(PyCapsule_GetPointer(c, nullptr)); }));
  hold.release();
  return Ref::steal(capsule);
}

void share_storage(StorageImpl& s) {
  if (s.is_shared_memory()) return;
  TESSERA_CHECK(s.device().is_cpu(), "only storages in CPU memory can be shared this way, this one is on ",
                s.device().str());
  check_not_held(s);
  TESSERA_CHECK(s.resizable(),
                "a storage over memory of somebody else (an array, a buffer, a slice) can't move to shared memory");
  const size_t n = s.nbytes();
  if (n) {
    void* data = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TESSERA_CHECK(data != MAP_FAILED, "unable to make shared memory of ", n, " bytes: ", std::strerror(errno));
    Storage shared = StorageImpl::wrap(data, n, Device(), &unmap, new Mapping{n});
    std::memcpy(data, s.data(), n);
    s.swap_memory(*shared);
  }
  s.mark_shared_memory();
}

Storage storage_over(void* data, size_t nbytes, PyObject* owner) {
  return StorageImpl::wrap(data, nbytes, Device(), &release_owner, owner);
}

void init_storage(PyObject* module) {
  static PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(PyStorage, dict), READONLY, nullptr},
                                  {"__weaklistoffset__", T_PYSSIZET, offsetof(PyStorage, weakrefs), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(storage_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(storage_dealloc)},
                                {Py_tp_getset, g_getset},
                                {Py_tp_methods, g_methods},
                                {Py_tp_members, members},
                                {Py_mp_length, reinterpret_cast<void*>(storage_length)},
                                {Py_mp_subscript, reinterpret_cast<void*>(storage_getitem)},
                                {Py_mp_ass_subscript, reinterpret_cast<void*>(storage_setitem)},
                                {Py_bf_getbuffer, reinterpret_cast<void*>(storage_getbuffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(storage_releasebuffer)},
                                {0, nullptr}};
  static PyType_Spec spec = {"torch.storage.UntypedStorage", sizeof(PyStorage), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  StorageType = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&spec)));
  check(PyModule_AddObjectRef(module, "UntypedStorage", reinterpret_cast<PyObject*>(StorageType)));
  check(PyModule_AddObjectRef(module, "StorageBase", reinterpret_cast<PyObject*>(StorageType)));
}

}  // namespace tessera::python
