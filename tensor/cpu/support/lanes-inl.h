// Parts of vectors: no byte outside of what is asked for is read or written. Included once per SIMD target.
#if defined(TESSERA_SUPPORT_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_SUPPORT_LANES_INL
#undef TESSERA_SUPPORT_LANES_INL
#else
#define TESSERA_SUPPORT_LANES_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The first `count` lanes from memory, zeros in the others; and to memory.
template <class D, class R = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadSome(D d, const R* from, int64_t count) {
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#else
  HWY_ALIGN R all[64 / sizeof(R)] = {};
  for (int64_t i = 0; i < count; ++i) all[i] = from[i];
  return hn::Load(d, all);
#endif
}
template <class D, class R = hn::TFromD<D>>
HWY_INLINE void StoreSome(hn::Vec<D> v, D d, R* to, int64_t count) {
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else
  HWY_ALIGN R all[64 / sizeof(R)];
  hn::Store(v, d, all);
  for (int64_t i = 0; i < count; ++i) to[i] = all[i];
#endif
}
template <class D>
HWY_INLINE hn::TFromD<D> Total(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif
