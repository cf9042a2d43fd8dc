// How a thread ends that asks for the interpreter's lock while the interpreter ends: it stops where it is, and goes
// with the process.
//
// Python before 3.14 ends such a thread by pthread_exit, which unwinds its stack, through our frames as well: their
// destructors would give back references without the lock, and those that may not throw would end the process by
// std::terminate. So no frame of an extension is unwound by force: the routine that the unwinder asks at each of them
// does not return then. The extension is linked with --wrap=__gxx_personality_v0 (tools/bazel/programs.bzl).
#include <unistd.h>
#include <unwind.h>

extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context) {
  while (actions & _UA_FORCE_UNWIND) pause();
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}

}  // extern "C"
