// [record]: how a run is recorded, when the configuration or an option says something of it.
//
// Used by config.cpp alone.
#pragma once

#include "config.hpp"
#include "document.hpp"

namespace sluice::tools {

/// Reports what cannot be meant into `document`.
void read_record(Document& document, RecordConfig& record);

}  // namespace sluice::tools
