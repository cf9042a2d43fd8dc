"""What this CPU can do."""


def get_cpu_capability():
    """The widest vector instructions of this CPU: 'AVX512', 'AVX2' or 'DEFAULT'."""
    try:
        with open("/proc/cpuinfo") as info:
            flags = next((set(line.split()) for line in info if line.startswith("flags")), set())
    except OSError:
        flags = set()
    return "AVX512" if {"avx512f", "avx512bw", "avx512vl"} <= flags else "AVX2" if "avx2" in flags else "DEFAULT"
