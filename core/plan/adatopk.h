// AdaTopK: top-k on the cut edges, as much as each edge needs. Our reading of FusionLLM; the paper's formulas are not
// known to us.
//
// A sparse message is w / r of its dense one, where w is the bytes per kept element over the bytes of a dense element:
// 3 in the naive format of an fp32 value and an int64 index, about 0.75 in ours (codec.h), which so keeps four times as
// many elements in the same bytes. Where no sparse message would be smaller, an edge stays dense. Integers always do.
#pragma once

#include "core/plan/schedule.h"

namespace fusion {

/// Per directed edge e with dense transfer time C_e (latency included) the lowest element ratio at which its volume
/// ratio reaches max(1, ratio C_e / max_f C_f); for a fixed w that is r_e = max(1, w ratio C_e / max_f C_f). The
/// slowest edge sends 1 / ratio of its dense bytes, an edge twice as fast 2 / ratio; an edge stays dense when it is
/// `ratio` times as fast as the slowest or more.
void adatopk(Schedule&, double ratio, const Graph&, const Costs&, const Platform&);

/// The same with values in eight bits, of a logarithmic scale: about twice as many elements in the same bytes.
void adatopk_int8(Schedule&, double ratio, const Graph&, const Costs&, const Platform&);

/// The smallest r_e for which no channel and no shared link (traffic.h) is busy for longer per micro-batch than the
/// busiest device, whose coding time counts. Smallest one by one: no edge can take a lower ratio while the others stay.
/// Where no ratio is enough, integers alone fill a link, the edges that cross it keep one element each.
void adatopk_slack(Schedule&, double, const Graph&, const Costs&, const Platform&);

}  // namespace fusion
