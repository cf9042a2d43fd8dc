// Orthogonal factorizations: which functions serve a device.
#pragma once

#include "linalg/cpu/orthogonal/householder.h"
#include "linalg/cpu/orthogonal/least_squares.h"
#include "tensor/engine/engine.h"

namespace tessera::linalg {

#define TESSERA_ORTHOGONAL_ENGINES(F) \
  F(run_qr)                           \
  F(run_geqrf) F(run_householder_product) F(run_apply_reflections) F(run_upper_triangle) F(run_least_squares)

struct OrthogonalEngines : EngineTable<OrthogonalEngines> {
  TESSERA_ORTHOGONAL_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::linalg

namespace tessera::engine_entries {
inline constexpr auto run_qr = &linalg::OrthogonalEngines::run_qr;
inline constexpr auto run_geqrf = &linalg::OrthogonalEngines::run_geqrf;
inline constexpr auto run_householder_product = &linalg::OrthogonalEngines::run_householder_product;
inline constexpr auto run_apply_reflections = &linalg::OrthogonalEngines::run_apply_reflections;
inline constexpr auto run_upper_triangle = &linalg::OrthogonalEngines::run_upper_triangle;
inline constexpr auto run_least_squares = &linalg::OrthogonalEngines::run_least_squares;
}  // namespace tessera::engine_entries
