// Python types of the small value objects: dtype, device, layout, memory_format, Size, Generator, UntypedStorage.
#pragma once

#include "python/bindings/common.h"

namespace tessera::python {

// "tessera", or "torch" under the launcher: what reprs print before the dot.
const char* display_name();
void set_display_name(const char* name);
// A public type, reachable as `name` from the package: its module follows the display name, so that it can be pickled.
void name_type(PyObject* type, const char* name);

extern PyTypeObject DTypeType, DeviceType_, LayoutType, MemoryFormatType, GeneratorType;
extern PyTypeObject* SizeType;  // tuple subclass

inline bool is_dtype(PyObject* o) { return Py_TYPE(o) == &DTypeType; }
inline bool is_device(PyObject* o) { return Py_TYPE(o) == &DeviceType_; }
inline bool is_layout(PyObject* o) { return Py_TYPE(o) == &LayoutType; }
inline bool is_memory_format(PyObject* o) { return Py_TYPE(o) == &MemoryFormatType; }
inline bool is_generator(PyObject* o) { return PyObject_TypeCheck(o, &GeneratorType); }

// Each returns a new reference (singletons for dtype, layout, memory_format).
PyObject* wrap(DType t);
PyObject* wrap(Layout l);
PyObject* wrap(MemoryFormat f);
PyObject* wrap(Device d);
PyObject* wrap(const Generator& g);
PyObject* wrap_size(IntList sizes);

// The object must have the type (checked by is_...).
DType unwrap_dtype(PyObject* o);
Layout unwrap_layout(PyObject* o);
MemoryFormat unwrap_memory_format(PyObject* o);
const Generator& unwrap_generator(PyObject* o);
// A device, a string or an int (index of the accelerator). TypeError / RuntimeError otherwise.
Device to_device(PyObject* o);
bool is_device_like(PyObject* o);
// Python's float, int and bool classes stand for dtypes too. False: not a dtype.
bool to_dtype(PyObject* o, DType* out);

void init_types(PyObject* module);

}  // namespace tessera::python
