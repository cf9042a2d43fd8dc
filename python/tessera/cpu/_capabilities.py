"""What Linux tells about the processor."""

import glob
import os
import platform

# Name here -> name in /proc/cpuinfo, where that differs from it.
_X86 = {
    **{
        name: name
        for name in "sse sse2 ssse3 sse4_1 sse4_2 sse4a popcnt f16c avx avx2 fma4 bmi2 aes clflush clflushopt clwb "
        "amx_fp16 amx_tile amx_int8 amx_bf16 avx_vnni avx512_bf16 avx512_fp16 avx512_vnni avx512_vbmi2 avx512_bitalg "
        "avx512_vp2intersect avx512_4vnniw avx512_4fmaps avx512_vpopcntdq avx_ne_convert avx_vnni_int8 "
        "avx_vnni_int16".split()
    },
    **{f"avx512_{part}": f"avx512{part}" for part in "f cd bw dq vl ifma vbmi".split()},
    "sse3": "pni",
    "fma3": "fma",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "sha": "sha_ni",
}
_ARM = {"neon": "asimd", "fp16_arith": "asimdhp", "i8mm": "i8mm", "bf16": "bf16", "sve": "sve", "sve2": "sve2"}
_ARM = {**_ARM, "dot": "asimddp", "atomics": "atomics", "rdm": "asimdrdm", "sme": "sme"}


def _fields():
    """The first processor's lines of /proc/cpuinfo: {key: value}."""
    found: dict = {}
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if not colon:
                    break
                found[key.strip()] = value.strip()
    except OSError:
        pass
    return found


def _content(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _cache_size(level):
    """Bytes of the data cache of a level of the first processor; 0 where the system does not say."""
    for folder in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*"):
        if _content(f"{folder}/level") == str(level) and _content(f"{folder}/type") in ("Data", "Unified"):
            size = _content(f"{folder}/size")
            return int(size[:-1]) * 1024 if size.endswith("K") else int(size or 0)
    return 0


def read():
    fields = _fields()
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    places = [
        (_content(f"{folder}/physical_package_id"), _content(f"{folder}/core_id"))
        for folder in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/topology")
    ]
    architecture = platform.machine()
    known = _ARM if architecture in ("aarch64", "arm64") else _X86
    return {
        "architecture": architecture,
        "cpu_name": fields.get("model name") or platform.processor(),
        "num_sockets": len({package for package, _ in places}) or 1,
        "num_physical_cores": len(set(places)) or os.cpu_count(),
        "num_logical_cores": os.cpu_count(),
        "l1d_cache_size": _cache_size(1),
        "l2_cache_size": _cache_size(2),
        **{name: flag in flags for name, flag in known.items()},
    }
