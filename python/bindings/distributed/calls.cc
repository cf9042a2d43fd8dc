// Remote calls, as functions over a handle; python/tessera/distributed/rpc has what is in the messages.

#include "distributed/calls.h"

#include "python/bindings/distributed/handles.h"

namespace tessera::distributed {

template <>
struct Named<Calls> {
  static constexpr const char* kName = "tessera.calls";
};

namespace {

// ---- bytes that came, which Python may write to

struct Arrived {
  PyObject_HEAD char* data;
  Py_ssize_t size;
};

int arrived_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto it = reinterpret_cast<Arrived*>(self);
  return PyBuffer_FillInfo(view, self, it->data, it->size, 0, flags);
}

void arrived_free(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  free(reinterpret_cast<Arrived*>(self)->data);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyType_Slot g_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(arrived_free)},
                         {Py_bf_getbuffer, reinterpret_cast<void*>(arrived_buffer)},
                         {0, nullptr}};
PyType_Spec g_spec = {"tessera._distributed.Arrived", sizeof(Arrived), 0, Py_TPFLAGS_DEFAULT, g_slots};
PyTypeObject* g_type;

constexpr size_t kSmall = 4096;

PyObject* python_piece(Piece& piece) {
  if (piece.size <= kSmall) return PyBytes_FromStringAndSize(piece.data.get(), piece.size);
  auto made = PyObject_New(Arrived, g_type);
  if (!made) return nullptr;
  made->size = static_cast<Py_ssize_t>(piece.size);
  made->data = piece.data.release();
  return reinterpret_cast<PyObject*>(made);
}

// (kind, number, link, rank, [piece])
PyObject* python_message(Message& message) {
  PyObject* list = checked(PyList_New(message.pieces.size()));
  for (size_t i = 0; i < message.pieces.size(); ++i) {
    PyObject* piece = python_piece(message.pieces[i]);
    if (!piece) {
      Py_DECREF(list);
      throw PythonError();
    }
    PyList_SET_ITEM(list, i, piece);
  }
  return Py_BuildValue("iKKiN", message.kind, static_cast<unsigned long long>(message.number),
                       static_cast<unsigned long long>(message.link), message.rank, list);
}

// What is sent: bytes, and tuples of an address and a size.
std::vector<std::string_view> pieces_of(PyObject* list) {
  std::vector<std::string_view> out;
  if (!PyList_Check(list)) throw std::invalid_argument("a message is a list of pieces");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (PyBytes_Check(item)) {
      out.emplace_back(PyBytes_AS_STRING(item), PyBytes_GET_SIZE(item));
      continue;
    }
    unsigned long long address;
    Py_ssize_t size;
    parse(PyArg_ParseTuple(item, "Kn", &address, &size));
    out.emplace_back(reinterpret_cast<const char*>(address), size);
  }
  return out;
}

// (process, address, secret) of where others of this host find this process
PyObject* calls_place(PyObject*) {
  Place place = own_place();
  return Py_BuildValue("iKy#", place.process, static_cast<unsigned long long>(place.address), place.secret.data(),
                       static_cast<Py_ssize_t>(place.secret.size()));
}

Calls::Worker worker_of(PyObject* item) {
  const char *name, *host, *found;
  int port, process;
  unsigned long long address;
  Py_ssize_t size;
  parse(PyArg_ParseTuple(item, "ssiiKy#", &name, &host, &port, &process, &address, &found, &size));
  return {name, host, port, {process, address, std::string(found, size)}};
}

// rank, [(name, host, port, *place)], secret, listening descriptor (it is taken over)
PyObject* calls_make(PyObject* args) {
  int rank, listener;
  PyObject* list;
  const char* secret;
  Py_ssize_t length;
  parse(PyArg_ParseTuple(args, "iO!y#i", &rank, &PyList_Type, &list, &secret, &length, &listener));
  Descriptor listening(listener);
  std::vector<Calls::Worker> workers;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) { workers.push_back(worker_of(PyList_GET_ITEM(list, i))); }
  if (!g_type) g_type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&g_spec)));
  return hold<Calls>(
      std::make_shared<Calls>(rank, std::string(secret, length), std::move(workers), std::move(listening)));
}

// calls, rank, (name, host, port, *place)
PyObject* calls_introduce(PyObject* args) {
  PyObject *capsule, *item;
  int rank;
  parse(PyArg_ParseTuple(args, "OiO!", &capsule, &rank, &PyTuple_Type, &item));
  held<Calls>(capsule)->introduce(rank, worker_of(item));
  Py_RETURN_NONE;
}

PyObject* calls_admit(PyObject* capsule) {
  held<Calls>(capsule)->admit();
  Py_RETURN_NONE;
}

PyObject* calls_close(PyObject* capsule) {
  auto calls = held<Calls>(capsule);
  unlocked([&] { calls->close(); });
  Py_RETURN_NONE;
}

// calls, rank, number, pieces, seconds
PyObject* calls_ask(PyObject* args) {
  PyObject *capsule, *list;
  int rank;
  unsigned long long number;
  double seconds;
  parse(PyArg_ParseTuple(args, "OiKOd", &capsule, &rank, &number, &list, &seconds));
  auto calls = held<Calls>(capsule);
  auto pieces = pieces_of(list);
  unlocked([&] { calls->ask(rank, number, pieces, deadline_after(seconds)); });
  Py_RETURN_NONE;
}

// calls, link, number, whether it is a value (else an error), pieces, seconds: whether the pieces have to stay
PyObject* calls_answer(PyObject* args) {
  PyObject *capsule, *list;
  int good;
  unsigned long long link, number;
  double seconds;
  parse(PyArg_ParseTuple(args, "OKKpOd", &capsule, &link, &number, &good, &list, &seconds));
  auto calls = held<Calls>(capsule);
  auto pieces = pieces_of(list);
  auto kind = good ? Message::kGood : Message::kBad;
  bool stay = unlocked([&] { return calls->answer(link, number, kind, pieces, deadline_after(seconds)); });
  return PyBool_FromLong(stay);
}

PyObject* calls_post(PyObject* args) {
  PyObject* capsule;
  unsigned long long number;
  parse(PyArg_ParseTuple(args, "OK", &capsule, &number));
  held<Calls>(capsule)->post(number);
  Py_RETURN_NONE;
}

PyObject* calls_take(PyObject* capsule) {
  auto calls = held<Calls>(capsule);
  auto message = unlocked([&] { return calls->take(); });
  if (!message) Py_RETURN_NONE;
  return python_message(*message);
}

// calls, rank, number, seconds: the message; True: the time is over; None: it is another thread's
PyObject* calls_wait(PyObject* args) {
  PyObject* capsule;
  int rank;
  unsigned long long number;
  double seconds;
  parse(PyArg_ParseTuple(args, "OiKd", &capsule, &rank, &number, &seconds));
  auto calls = held<Calls>(capsule);
  bool again = false;
  auto message = unlocked([&] { return calls->wait(rank, number, deadline_after(seconds), again); });
  if (message) return python_message(*message);
  if (again) Py_RETURN_TRUE;
  Py_RETURN_NONE;
}

}  // namespace

PyMethodDef g_call_methods[] = {
    {"calls_place", guarded<calls_place>, METH_NOARGS, "calls_place() -> (process, address, secret)"},
    {"calls_make", guarded<calls_make>, METH_VARARGS, "calls_make(rank, workers, secret, listener) -> calls"},
    {"calls_introduce", guarded<calls_introduce>, METH_VARARGS, "calls_introduce(calls, rank, worker)"},
    {"calls_admit", guarded<calls_admit>, METH_O, "calls_admit(calls)"},
    {"calls_close", guarded<calls_close>, METH_O, "calls_close(calls)"},
    {"calls_ask", guarded<calls_ask>, METH_VARARGS, "calls_ask(calls, rank, number, pieces, seconds)"},
    {"calls_answer", guarded<calls_answer>, METH_VARARGS, "calls_answer(calls, link, number, good, pieces, s) -> bool"},
    {"calls_post", guarded<calls_post>, METH_VARARGS, "calls_post(calls, number)"},
    {"calls_take", guarded<calls_take>, METH_O, "calls_take(calls) -> (kind, number, link, rank, pieces) or None"},
    {"calls_wait", guarded<calls_wait>, METH_VARARGS, "calls_wait(calls, rank, number, seconds) -> message or bool"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace tessera::distributed
