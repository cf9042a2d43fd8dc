// What operators of all tables do where an argument is sparse.
#pragma once

namespace tessera::sparse {

// From now on calls with sparse tensors go by the table of rules.cc. Once for the process.
void install_rules();

}  // namespace tessera::sparse
