// The Python type of untyped storages: bytes that tensors view.
#pragma once

#include "python/bindings/common.h"

namespace tessera::python {

extern PyTypeObject* StorageType;

bool is_untyped_storage(PyObject* o);
const Storage& unwrap_storage(PyObject* o);
// The one Python object of a storage (new reference).
PyObject* wrap(const Storage& s);
// The untyped storage of an UntypedStorage or a TypedStorage; null for other objects.
Storage storage_of(PyObject* o);
// Moves the bytes to memory that child processes share.
void share_storage(StorageImpl& s);
// Memory of a Python object (an array, a buffer): `owner` is released with the storage. Takes over the reference.
Storage storage_over(void* data, size_t nbytes, PyObject* owner);

// Somebody outside holds the address: while there is one of these, the memory stays where it is. On any thread.
class AddressHold {
 public:
  explicit AddressHold(Storage s);
  ~AddressHold();
  AddressHold(const AddressHold&) = delete;
  // The same as a Python object.
  static Ref capsule(Storage s);

 private:
  Storage storage_;
};

void init_storage(PyObject* module);

}  // namespace tessera::python
