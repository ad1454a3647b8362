// sluice_stop_here: where a debugger catches a replay.
//
// The replayer calls it when the replay has come to the point it was told to go to (replay_point.hpp),
// before the action there starts; nothing else does. It does nothing. With symbols or without:
//
//     gdb -ex 'break sluice_stop_here' -ex run -ex 'x/s $rdi' --args sluice replay run.slrec
//         --until step=5,mb=3,stage=1,phase=F --then break
#pragma once

/// `where`: `step 5, stage 1, mb 3, F, seq 1297`. Called on the executor of the rank that came there.
extern "C" void sluice_stop_here(const char* where);
