// tessera._distributed: stores and process groups, as functions over handles. What they move is memory: an address and
// a number of bytes, which python/tessera/distributed takes from tensors.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/group.h"
#include "distributed/mesh.h"
#include "distributed/mpi.h"
#include "distributed/shared_memory.h"
#include "distributed/store.h"
#include "python/bindings/distributed/handles.h"

namespace tessera::distributed {

PyObject* g_errors[6];

struct Asker {
  std::function<std::vector<std::string>(Ask, std::vector<std::string>, Deadline)> ask;
};
struct GroupTransfer {
  std::shared_ptr<Group> group;
  std::shared_ptr<Transfer> transfer;
};

template <>
struct Named<StoreServer> {
  static constexpr const char* kName = "tessera.store_server";
};
template <>
struct Named<Asker> {
  static constexpr const char* kName = "tessera.store";
};
template <>
struct Named<Group> {
  static constexpr const char* kName = "tessera.group";
};
template <>
struct Named<Ticket> {
  static constexpr const char* kName = "tessera.ticket";
};
template <>
struct Named<GroupTransfer> {
  static constexpr const char* kName = "tessera.transfer";
};

namespace {

std::vector<std::string> strings(PyObject* list) {
  std::vector<std::string> out;
  Py_ssize_t n = PySequence_Size(list);
  if (n < 0) throw PythonError();
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = checked(PySequence_GetItem(list, i));
    char* data;
    Py_ssize_t size;
    int code = PyBytes_AsStringAndSize(item, &data, &size);
    if (code == 0) out.emplace_back(data, size);
    Py_DECREF(item);
    if (code != 0) throw PythonError();
  }
  return out;
}

PyObject* bytes_list(const std::vector<std::string>& values) {
  PyObject* list = checked(PyList_New(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    PyList_SET_ITEM(list, i, PyBytes_FromStringAndSize(values[i].data(), values[i].size()));
  }
  return list;
}

std::vector<int64_t> numbers(PyObject* list) {
  Py_ssize_t n = PySequence_Size(list);
  if (n < 0) throw PythonError();
  std::vector<int64_t> out(n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = checked(PySequence_GetItem(list, i));
    out[i] = PyLong_AsLongLong(item);
    Py_DECREF(item);
    if (out[i] == -1 && PyErr_Occurred()) throw PythonError();
  }
  return out;
}

std::vector<Buffer> buffers(PyObject* list) {
  auto flat = numbers(list);
  std::vector<Buffer> out(flat.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = {reinterpret_cast<char*>(flat[2 * i]), static_cast<size_t>(flat[2 * i + 1])};
  }
  return out;
}

PyObject* listen_here(PyObject* args) {
  const char* host;
  int port;
  parse(PyArg_ParseTuple(args, "si", &host, &port));
  Descriptor fd = unlocked([&] { return listen_at(host, port); });
  int bound = port_of(fd.get());
  return Py_BuildValue("ii", fd.release(), bound);
}

PyObject* store_serve(PyObject* args) {
  const char* host;
  int port, fd;
  parse(PyArg_ParseTuple(args, "sii", &host, &port, &fd));
  auto server = unlocked([&] { return std::make_shared<StoreServer>(host, port, fd); });
  int bound = server->port();
  return Py_BuildValue("Ni", hold<StoreServer>(std::move(server)), bound);
}

PyObject* store_connect(PyObject* args) {
  const char* host;
  int port;
  double seconds;
  parse(PyArg_ParseTuple(args, "sid", &host, &port, &seconds));
  auto client = unlocked([&] { return std::make_shared<StoreClient>(host, port, deadline_after(seconds)); });
  return hold<Asker>(
      std::make_shared<Asker>(Asker{[client](Ask what, std::vector<std::string> fields, Deadline deadline) {
        return client->ask(what, fields, deadline);
      }}));
}

PyObject* store_local(PyObject*) {
  auto store = std::make_shared<LocalStore>();
  return hold<Asker>(
      std::make_shared<Asker>(Asker{[store](Ask what, std::vector<std::string> fields, Deadline deadline) {
        return store->ask(what, std::move(fields), deadline);
      }}));
}

PyObject* store_ask(PyObject* args) {
  PyObject *capsule, *list;
  int what;
  double seconds;
  parse(PyArg_ParseTuple(args, "OiOd", &capsule, &what, &list, &seconds));
  auto store = held<Asker>(capsule);
  auto fields = strings(list);
  auto reply = unlocked([&] { return store->ask(static_cast<Ask>(what), std::move(fields), deadline_after(seconds)); });
  return bytes_list(reply);
}

PyObject* memory_create(PyObject* args) {
  int size;
  parse(PyArg_ParseTuple(args, "i", &size));
  return PyLong_FromLong(SharedMemory::create(size).release());
}

PyObject* memory_open(PyObject* args) {
  int pid, fd;
  parse(PyArg_ParseTuple(args, "ii", &pid, &fd));
  return PyLong_FromLong(SharedMemory::open(pid, fd).release());
}

// rank, [(host, port, pid)], secret, listening descriptor (it is taken over), descriptor of shared memory or -1 (too)
PyObject* group_make(PyObject* args) {
  int rank, listener, memory;
  PyObject* list;
  const char* secret;
  Py_ssize_t length;
  parse(PyArg_ParseTuple(args, "iOy#ii", &rank, &list, &secret, &length, &listener, &memory));
  Descriptor listening(listener), shared(memory);
  std::vector<Mesh::Peer> peers;
  std::vector<int> pids;
  for (Py_ssize_t i = 0; i < PySequence_Size(list); ++i) {
    PyObject* item = checked(PySequence_GetItem(list, i));
    const char* host;
    Mesh::Peer peer;
    int ok = PyArg_ParseTuple(item, "sii", &host, &peer.port, &peer.pid);
    if (ok) peer.host = host;
    Py_DECREF(item);
    parse(ok);
    pids.push_back(peer.pid);
    peers.push_back(std::move(peer));
  }
  int size = static_cast<int>(peers.size());
  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<Engine> engine;
  if (size > 1) {
    mesh = std::make_unique<Mesh>(rank, std::move(peers), std::string(secret, length), std::move(listening));
    if (shared) {
      engine = std::make_unique<SharedMemory>(rank, std::move(pids), std::move(shared));
    } else {
      engine = std::make_unique<MessageEngine>(mesh.get());
    }
  }
  return hold<Group>(std::make_shared<Group>(rank, size, std::move(mesh), std::move(engine)));
}

PyObject* mpi_is_here(PyObject*) { return PyBool_FromLong(unlocked(mpi_is_there)); }

PyObject* mpi_world(PyObject*) {
  int rank, size;
  unlocked([&] { mpi_start(rank, size); });
  return Py_BuildValue("ii", rank, size);
}

// [rank in MPI_COMM_WORLD]
PyObject* mpi_group(PyObject* args) {
  PyObject* list;
  parse(PyArg_ParseTuple(args, "O", &list));
  auto wide = numbers(list);
  std::vector<int> ranks(wide.begin(), wide.end());
  return hold<Group>(unlocked([&] {
    auto messages = std::make_unique<MpiMessages>(ranks);
    auto engine = std::make_unique<MessageEngine>(messages.get());
    int rank = messages->rank();
    return std::make_shared<Group>(rank, static_cast<int>(ranks.size()), std::move(messages), std::move(engine));
  }));
}

// group, collective, kind, fold, root, [address, bytes, ...] in, the same out, seconds, whether to return a ticket;
// scale
PyObject* group_run(PyObject* args) {
  PyObject *capsule, *in, *out;
  int what, kind, fold, wait;
  Request request;
  parse(PyArg_ParseTuple(args, "OiiiiOOdp|d", &capsule, &what, &kind, &fold, &request.root, &in, &out, &request.timeout,
                         &wait, &request.scale));
  auto group = held<Group>(capsule);
  request.what = static_cast<Collective>(what);
  request.kind = static_cast<Kind>(kind);
  request.fold = static_cast<Fold>(fold);
  request.in = buffers(in);
  request.out = buffers(out);
  bool folds = request.what == Collective::kAllReduce || request.what == Collective::kReduce ||
               request.what == Collective::kReduceScatter;
  if (folds && !can_fold(request.kind, request.fold)) {
    PyErr_SetString(PyExc_RuntimeError, "this reduction is not defined for this element type");
    throw PythonError();
  }
  if (!wait) return hold<Ticket>(group->start(std::move(request)));
  unlocked([&] { group->run(std::move(request)); });
  Py_RETURN_NONE;
}

PyObject* group_abort(PyObject* args) {
  PyObject* capsule;
  const char* why;
  parse(PyArg_ParseTuple(args, "Os", &capsule, &why));
  auto group = held<Group>(capsule);
  unlocked([&] { group->abort(why); });
  Py_RETURN_NONE;
}

PyObject* ticket_done(PyObject* args) {
  PyObject* capsule;
  parse(PyArg_ParseTuple(args, "O", &capsule));
  return PyBool_FromLong(held<Ticket>(capsule)->done());
}

PyObject* ticket_wait(PyObject* args) {
  PyObject* capsule;
  double seconds;
  parse(PyArg_ParseTuple(args, "Od", &capsule, &seconds));
  auto ticket = held<Ticket>(capsule);
  return PyBool_FromLong(unlocked([&] { return ticket->wait(seconds); }));
}

// group, whether to send, peer, tag, address, bytes, seconds, whether to wait: the peer; else a handle
PyObject* group_transfer(PyObject* args) {
  PyObject* capsule;
  int sends, peer, wait;
  unsigned long long tag, address;
  Py_ssize_t size;
  double seconds;
  parse(PyArg_ParseTuple(args, "OpiKKndp", &capsule, &sends, &peer, &tag, &address, &size, &seconds, &wait));
  auto group = held<Group>(capsule);
  Messages* messages = group->messages();
  int least = sends ? 0 : -1;
  if (!messages || peer == messages->rank() || peer < least || peer >= messages->size()) {
    PyErr_SetString(PyExc_RuntimeError, "messages go to another rank of the group, and not to the rank itself");
    throw PythonError();
  }
  Buffer buffer{reinterpret_cast<char*>(address), static_cast<size_t>(size)};
  auto deadline = deadline_after(seconds);
  auto transfer = unlocked([&] {
    auto made = sends ? messages->send(peer, tag, buffer, deadline) : messages->receive(peer, tag, buffer);
    if (wait) {
      messages->wait(made, deadline);
    } else {
      messages->move_in_background();
    }
    return made;
  });
  if (wait) return PyLong_FromLong(transfer->peer);
  return hold<GroupTransfer>(std::make_shared<GroupTransfer>(GroupTransfer{group, transfer}));
}

PyObject* transfer_wait(PyObject* args) {
  PyObject* capsule;
  double seconds;
  parse(PyArg_ParseTuple(args, "Od", &capsule, &seconds));
  auto it = held<GroupTransfer>(capsule);
  unlocked([&] { it->group->messages()->wait(it->transfer, deadline_after(seconds)); });
  return PyLong_FromLong(it->transfer->peer);
}

PyObject* transfer_done(PyObject* args) {
  PyObject* capsule;
  parse(PyArg_ParseTuple(args, "O", &capsule));
  auto it = held<GroupTransfer>(capsule);
  return PyBool_FromLong(unlocked([&] { return it->group->messages()->is_done(*it->transfer); }));
}

// Which exceptions to raise, in the order of Fault.
PyObject* set_errors(PyObject* args) {
  for (int i = 0; i < 6; ++i) {
    PyObject* type = checked(PySequence_GetItem(args, i));
    Py_XDECREF(g_errors[i]);
    g_errors[i] = type;
  }
  Py_RETURN_NONE;
}

PyMethodDef g_methods[] = {
    {"listen", guarded<listen_here>, METH_VARARGS, "listen(host, port) -> (descriptor, port)"},
    {"store_serve", guarded<store_serve>, METH_VARARGS, "store_serve(host, port, descriptor) -> (server, port)"},
    {"store_connect", guarded<store_connect>, METH_VARARGS, "store_connect(host, port, seconds) -> store"},
    {"store_local", guarded<store_local>, METH_VARARGS, "store_local() -> store"},
    {"store_ask", guarded<store_ask>, METH_VARARGS, "store_ask(store, what, fields, seconds) -> [bytes]"},
    {"memory_create", guarded<memory_create>, METH_VARARGS, "memory_create(size) -> descriptor"},
    {"memory_open", guarded<memory_open>, METH_VARARGS, "memory_open(pid, descriptor) -> descriptor"},
    {"group_make", guarded<group_make>, METH_VARARGS, "group_make(rank, peers, secret, listener, memory) -> group"},
    {"mpi_is_there", guarded<mpi_is_here>, METH_NOARGS, "mpi_is_there() -> bool"},
    {"mpi_world", guarded<mpi_world>, METH_NOARGS, "mpi_world() -> (rank, size)"},
    {"mpi_group", guarded<mpi_group>, METH_VARARGS, "mpi_group(ranks) -> group"},
    {"group_run", guarded<group_run>, METH_VARARGS,
     "group_run(group, what, kind, fold, root, in, out, seconds, wait, scale=1) -> None or ticket"},
    {"group_abort", guarded<group_abort>, METH_VARARGS, "group_abort(group, why)"},
    {"group_transfer", guarded<group_transfer>, METH_VARARGS,
     "group_transfer(group, sends, peer, tag, address, bytes, seconds, wait) -> peer or transfer"},
    {"ticket_done", guarded<ticket_done>, METH_VARARGS, "ticket_done(ticket) -> bool"},
    {"ticket_wait", guarded<ticket_wait>, METH_VARARGS, "ticket_wait(ticket, seconds) -> bool"},
    {"transfer_done", guarded<transfer_done>, METH_VARARGS, "transfer_done(transfer) -> bool"},
    {"transfer_wait", guarded<transfer_wait>, METH_VARARGS, "transfer_wait(transfer, seconds) -> peer"},
    {"set_errors", guarded<set_errors>, METH_VARARGS,
     "set_errors(backend, network, store, timeout, queue_empty, interrupted)"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "_distributed",
                        "Stores and process groups.",
                        -1,
                        g_methods,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

}  // namespace
}  // namespace tessera::distributed

PyMODINIT_FUNC PyInit__distributed() {
  for (auto& error : tessera::distributed::g_errors) {
    if (!error) error = PyExc_RuntimeError;
    Py_INCREF(error);
  }
  PyObject* module = PyModule_Create(&tessera::distributed::g_module);
  if (module && PyModule_AddFunctions(module, tessera::distributed::g_call_methods) != 0) Py_CLEAR(module);
  return module;
}
