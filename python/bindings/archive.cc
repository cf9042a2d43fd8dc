#include "python/bindings/archive.h"

#include <cstring>
#include <memory>
#include <optional>

#include "python/bindings/buffer.h"
#include "serialization/file.h"
#include "serialization/zip.h"

namespace tessera::python {
namespace {

using serialization::FileSink;
using serialization::FileSource;
using serialization::Sink;
using serialization::Source;
using serialization::ZipReader;
using serialization::ZipWriter;

// What a file object is given to read into or to write: parts of a Python object's own buffer, which the file object
// may keep. Memory of C++ is never given away.
class Lender {
 public:
  // Until `end`: parts of the buffer of `o`.
  void begin(PyObject* o, std::span<const uint8_t> bytes) {
    Ref view = Ref::steal(check(PyMemoryView_FromObject(o)));
    view_ = Ref::steal(check(PyObject_CallMethod(view.get(), "cast", "s", "B")));
    bytes_ = bytes;
  }
  void end() { view_ = Ref(), bytes_ = {}; }
  // A view of `part`; null where it is no part.
  Ref lend(std::span<const uint8_t> part) const {
    if (!view_ || part.data() < bytes_.data() || part.data() + part.size() > bytes_.data() + bytes_.size())
      return Ref();
    const Py_ssize_t first = part.data() - bytes_.data();
    return Ref::steal(check(PySequence_GetSlice(view_.get(), first, first + static_cast<Py_ssize_t>(part.size()))));
  }

 private:
  Ref view_;
  std::span<const uint8_t> bytes_;
};
class Lending {
 public:
  Lending(Lender* lender, PyObject* o, std::span<const uint8_t> bytes) : lender_(lender) {
    if (lender_) lender_->begin(o, bytes);
  }
  ~Lending() {
    if (lender_) lender_->end();
  }
  Lending(const Lending&) = delete;

 private:
  Lender* lender_;
};

// A file object of Python. Called with the lock, on the thread of the call that it serves.
class PythonSource final : public Source {
 public:
  PythonSource(PyObject* file, int64_t base) : file_(Ref::borrow(file)), base_(base) {
    Ref::steal(check(PyObject_CallMethod(file, "seek", "ii", 0, 2)));
    Ref end = Ref::steal(check(PyObject_CallMethod(file, "tell", nullptr)));
    const long long n = PyLong_AsLongLong(end.get());
    if (n == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
    size_ = n > base ? static_cast<uint64_t>(n - base) : 0;
    reads_into_ = PyObject_HasAttrString(file, "readinto");
  }
  bool concurrent() const override { return false; }

  void read(uint64_t position, std::span<uint8_t> out) override {
    check_range(position, out.size());
    Ref::steal(check(PyObject_CallMethod(file_.get(), "seek", "L", static_cast<long long>(base_ + position))));
    while (!out.empty()) {
      Ref view = reads_into_ ? lender.lend(out) : Ref();
      const size_t n = view ? read_into(view.get()) : read_bytes(out);
      TESSERA_CHECK(n > 0 && n <= out.size(), "PytorchStreamReader failed reading zip archive: file read failed");
      out = out.subspan(n);
    }
  }

  Lender lender;

 private:
  size_t read_into(PyObject* view) {
    Ref n = Ref::steal(check(PyObject_CallMethod(file_.get(), "readinto", "O", view)));
    const Py_ssize_t count = n.get() == Py_None ? 0 : PyLong_AsSsize_t(n.get());
    if (count == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
    return count < 0 ? 0 : static_cast<size_t>(count);
  }
  size_t read_bytes(std::span<uint8_t> out) {
    Ref data = Ref::steal(check(PyObject_CallMethod(file_.get(), "read", "n", static_cast<Py_ssize_t>(out.size()))));
    Buffer got(data.get(), PyBUF_SIMPLE);
    if (got.bytes().size() <= out.size() && !got.bytes().empty())
      std::memcpy(out.data(), got.bytes().data(), got.bytes().size());
    return got.bytes().size();
  }

  Ref file_;
  int64_t base_;
  bool reads_into_;
};

class PythonSink final : public Sink {
 public:
  explicit PythonSink(PyObject* file) : file_(Ref::borrow(file)) {}
  bool any_thread() const override { return false; }

  void write(std::span<const uint8_t> data) override {
    while (!data.empty()) {
      Ref part = lender.lend(data);
      if (!part)
        part = Ref::steal(check(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(data.data()),
                                                          static_cast<Py_ssize_t>(data.size()))));
      Ref n = Ref::steal(check(PyObject_CallMethod(file_.get(), "write", "O", part.get())));
      // A raw file may write less than all; others give None or what they like.
      size_t count = data.size();
      if (PyLong_Check(n.get())) {
        const Py_ssize_t written = PyLong_AsSsize_t(n.get());
        if (written == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
        if (written > 0 && static_cast<size_t>(written) < count) count = static_cast<size_t>(written);
      }
      data = data.subspan(count);
    }
  }

  Lender lender;

 private:
  Ref file_;
};

// An object of one of the three types: a C++ object behind Python's head.
template <class T>
struct Holder {
  PyObject_HEAD T* value;
};
template <class T>
T& held(PyObject* self) {
  return *reinterpret_cast<Holder<T>*>(self)->value;
}
template <class T>
PyObject* hold(PyTypeObject* type, std::unique_ptr<T> value) {
  PyObject* self = check(type->tp_alloc(type, 0));
  reinterpret_cast<Holder<T>*>(self)->value = value.release();
  return self;
}
template <class T>
void dealloc(PyObject* self) {
  delete reinterpret_cast<Holder<T>*>(self)->value;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// --- _FileSink ---

PyTypeObject* FileSinkType;

PyObject* sink_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* name;
    if (!PyArg_ParseTuple(args, "O&:_FileSink", PyUnicode_FSConverter, &name)) return nullptr;
    Ref path = Ref::steal(name);
    std::unique_ptr<FileSink> sink;
    {
      GilRelease released;
      sink = std::make_unique<FileSink>(std::string(PyBytes_AS_STRING(path.get()), PyBytes_GET_SIZE(path.get())));
    }
    return hold(type, std::move(sink));
  });
}
PyObject* sink_write(PyObject* self, PyObject* data) {
  return guarded([&] {
    Buffer buffer(data, PyBUF_SIMPLE);
    {
      GilRelease released;
      held<FileSink>(self).write(buffer.bytes());
    }
    return PyLong_FromSize_t(buffer.bytes().size());
  });
}
PyObject* sink_close(PyObject* self, PyObject*) {
  return guarded([&] {
    GilRelease released;
    held<FileSink>(self).close();
    return Py_None;
  })
             ? none()
             : nullptr;
}
PyObject* sink_enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* sink_exit(PyObject* self, PyObject* args) {
  if (PyTuple_Size(args) > 0 && PyTuple_GET_ITEM(args, 0) == Py_None) return sink_close(self, nullptr);
  held<FileSink>(self).discard();
  return none();
}

PyMethodDef g_sink_methods[] = {{"write", sink_write, METH_O, "Appends bytes; returns how many."},
                                {"close", sink_close, METH_NOARGS, "Puts the file in its place."},
                                {"__enter__", sink_enter, METH_NOARGS, nullptr},
                                {"__exit__", sink_exit, METH_VARARGS, "close(), or after an exception: the file goes."},
                                {nullptr, nullptr, 0, nullptr}};

// --- _ZipWriter ---

struct Writer {
  Ref file;                            // what the sink writes to
  std::unique_ptr<PythonSink> python;  // for a file object
  std::optional<ZipWriter> zip;
  bool frees_lock = false;
};

PyObject* writer_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* file;
    const char* name;
    Py_ssize_t length;
    int checksums = 1;
    if (!PyArg_ParseTuple(args, "Os#|p:_ZipWriter", &file, &name, &length, &checksums)) return nullptr;
    auto writer = std::make_unique<Writer>();
    writer->file = Ref::borrow(file);
    writer->frees_lock = PyObject_TypeCheck(file, FileSinkType);
    if (!writer->frees_lock) writer->python = std::make_unique<PythonSink>(file);
    Sink& sink = writer->python ? static_cast<Sink&>(*writer->python) : held<FileSink>(file);
    writer->zip.emplace(sink, std::string(name, length), checksums != 0);
    return hold(type, std::move(writer));
  });
}
PyObject* writer_write(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char* name;
    Py_ssize_t length;
    PyObject* data;
    if (!PyArg_ParseTuple(args, "s#O:write_record", &name, &length, &data)) return nullptr;
    Writer& w = held<Writer>(self);
    Buffer buffer(data, PyBUF_SIMPLE);
    Lending lending(w.python ? &w.python->lender : nullptr, data, buffer.bytes());
    uint32_t crc;
    {
      GilRelease released(w.frees_lock);
      crc = w.zip->write(std::string_view(name, length), buffer.bytes());
    }
    return PyLong_FromUnsignedLong(crc);
  });
}
PyObject* writer_close(PyObject* self, PyObject*) {
  return guarded([&] {
    Writer& w = held<Writer>(self);
    GilRelease released(w.frees_lock);
    w.zip->close();
    return Py_None;
  })
             ? none()
             : nullptr;
}

PyMethodDef g_writer_methods[] = {
    {"write_record", writer_write, METH_VARARGS, "write_record(name, data): appends a record; returns its checksum."},
    {"close", writer_close, METH_NOARGS, "Writes the directory. The file stays open."},
    {nullptr, nullptr, 0, nullptr}};

// --- _ZipReader ---

struct Reader {
  std::unique_ptr<Source> source;
  PythonSource* python = nullptr;  // the source, if it is a file object
  std::optional<ZipReader> zip;
  int64_t base = 0;
  bool frees_lock = false;
};

PyObject* reader_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* file;
    int descriptor = -1;
    if (!PyArg_ParseTuple(args, "O|i:_ZipReader", &file, &descriptor)) return nullptr;
    auto reader = std::make_unique<Reader>();
    Ref at = Ref::steal(check(PyObject_CallMethod(file, "tell", nullptr)));
    reader->base = PyLong_AsLongLong(at.get());
    if (reader->base == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
    TESSERA_CHECK_VALUE(reader->base >= 0, "the position of a file can't be negative, got ", reader->base);
    reader->frees_lock = descriptor >= 0;
    if (reader->frees_lock)
      reader->source = std::make_unique<FileSource>(descriptor, reader->base);
    else
      reader->source.reset(reader->python = new PythonSource(file, reader->base));
    {
      GilRelease released(reader->frees_lock);
      reader->zip.emplace(*reader->source);
    }
    return hold(type, std::move(reader));
  });
}

std::string_view name_of_record(PyObject* name) {
  Py_ssize_t length;
  const char* text = PyUnicode_AsUTF8AndSize(name, &length);
  if (!text) throw ErrorAlreadySet();
  return {text, static_cast<size_t>(length)};
}
Ref text_of(std::string_view s) {  // a name need not be UTF-8
  return Ref::steal(check(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "backslashreplace")));
}

int reader_contains(PyObject* self, PyObject* name) {
  int found = -1;
  guarded_int([&] { found = held<Reader>(self).zip->has(name_of_record(name)); });
  return found;
}
PyObject* reader_names(PyObject* self, PyObject*) {
  return guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const std::string& name : held<Reader>(self).zip->names())
      check(PyList_Append(list.get(), text_of(name).get()));
    return list.release();
  });
}
PyObject* reader_size(PyObject* self, PyObject* name) {
  return guarded(
      [&] { return PyLong_FromUnsignedLongLong(held<Reader>(self).zip->record_size(name_of_record(name))); });
}
PyObject* reader_offset(PyObject* self, PyObject* name) {
  return guarded([&] {
    Reader& r = held<Reader>(self);
    return PyLong_FromUnsignedLongLong(r.base + r.zip->record_offset(name_of_record(name)));
  });
}
PyObject* reader_read(PyObject* self, PyObject* name) {
  return guarded([&] {
    Reader& r = held<Reader>(self);
    const std::string_view record = name_of_record(name);
    const uint64_t size = r.zip->record_size(record);
    Ref data = Ref::steal(check(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size))));
    const std::span<uint8_t> out(reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(data.get())), size);
    {
      GilRelease released(r.frees_lock);
      r.zip->read(record, out);
    }
    return data.release();
  });
}
PyObject* reader_read_into(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *name, *buffer;
    if (!PyArg_ParseTuple(args, "UO:read_into", &name, &buffer)) return nullptr;
    Reader& r = held<Reader>(self);
    Buffer out(buffer, PyBUF_WRITABLE);
    const std::string_view record = name_of_record(name);
    Lending lending(r.python ? &r.python->lender : nullptr, buffer, out.bytes());
    GilRelease released(r.frees_lock);
    r.zip->read(record, out.bytes());
    return Py_None;
  })
             ? none()
             : nullptr;
}
PyObject* reader_archive_name(PyObject* self, void*) {
  return guarded([&] { return text_of(held<Reader>(self).zip->archive_name()).release(); });
}

PyMethodDef g_reader_methods[] = {
    {"names", reader_names, METH_NOARGS, "Record names without the archive's own, sorted."},
    {"record_size", reader_size, METH_O, "Length in bytes of a record."},
    {"record_offset", reader_offset, METH_O,
     "Where the data of a stored record begin in the file. RuntimeError if it is compressed."},
    {"read", reader_read, METH_O, "The bytes of a record. RuntimeError if they don't have its checksum."},
    {"read_into", reader_read_into, METH_VARARGS,
     "read_into(name, buffer): the same into a writable buffer of the record's size."},
    {nullptr, nullptr, 0, nullptr}};
PyObject* reader_file_size(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(held<Reader>(self).source->size());
}
PyGetSetDef g_reader_getset[] = {{"archive_name", reader_archive_name, nullptr, nullptr, nullptr},
                                 {"size", reader_file_size, nullptr, "Length of the file in bytes.", nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject* make_type(PyObject* module, PyType_Spec* spec) {
  auto* type = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(spec)));
  check(PyModule_AddObjectRef(module, spec->name + std::string_view("torch._C.").size(),
                              reinterpret_cast<PyObject*>(type)));
  return type;
}

}  // namespace

void init_archive(PyObject* module) {
  static PyType_Slot sink[] = {{Py_tp_new, reinterpret_cast<void*>(sink_new)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<FileSink>)},
                               {Py_tp_methods, g_sink_methods},
                               {0, nullptr}};
  static PyType_Slot writer[] = {{Py_tp_new, reinterpret_cast<void*>(writer_new)},
                                 {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<Writer>)},
                                 {Py_tp_methods, g_writer_methods},
                                 {0, nullptr}};
  static PyType_Slot reader[] = {{Py_tp_new, reinterpret_cast<void*>(reader_new)},
                                 {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<Reader>)},
                                 {Py_tp_methods, g_reader_methods},
                                 {Py_tp_getset, g_reader_getset},
                                 {Py_sq_contains, reinterpret_cast<void*>(reader_contains)},
                                 {0, nullptr}};
  static PyType_Spec specs[] = {{"torch._C._FileSink", sizeof(Holder<FileSink>), 0, Py_TPFLAGS_DEFAULT, sink},
                                {"torch._C._ZipWriter", sizeof(Holder<Writer>), 0, Py_TPFLAGS_DEFAULT, writer},
                                {"torch._C._ZipReader", sizeof(Holder<Reader>), 0, Py_TPFLAGS_DEFAULT, reader}};
  FileSinkType = make_type(module, &specs[0]);
  make_type(module, &specs[1]);
  make_type(module, &specs[2]);
}

}  // namespace tessera::python
