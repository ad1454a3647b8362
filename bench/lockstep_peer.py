"""The law of the drain depth as one would write it down in an afternoon, in two ways; plain Python, no packages.

The peers of the planner's timelines. Whole-number costs and link times: `forward` and `backward` by stage,
`link` by edge, `sizes` by microbatch, how many times a cost it takes.
"""

import heapq


def credits_of(stages, drain_depth):
    return [1 + min(drain_depth, max(drain_depth, stages - 1) - s) for s in range(stages)]


def lock_step(stages, microbatches, drain_depth, forward, backward, link, sizes):
    """Tick by tick, stage by stage; ticks until everything has drained."""
    last = stages - 1
    credits = credits_of(stages, drain_depth)
    gate = min(microbatches, min(credits))
    gate_open = False
    next_forward = [0] * stages
    next_backward = [0] * stages
    held = [0] * stages
    busy_until = [0] * stages
    running_backward = [False] * stages
    # When the inputs that wait at a stage arrived or will arrive, in microbatch order.
    inputs = [[] for _ in range(stages)]
    gradients = [[] for _ in range(stages)]
    inputs[0] = [0] * microbatches
    done = 0
    tick = 0
    while done < stages * microbatches:
        for s in range(stages):
            if busy_until[s] == tick and running_backward[s]:
                running_backward[s] = False
                held[s] -= 1
                done += 1
        for s in range(stages):
            if busy_until[s] > tick:
                continue
            mb = next_forward[s]
            if mb < microbatches and held[s] < credits[s] and mb < len(inputs[s]) and inputs[s][mb] <= tick:
                end = tick + sizes[mb] * forward[s]
                next_forward[s] += 1
                held[s] += 1
                busy_until[s] = end
                if s < last:
                    inputs[s + 1].append(end + link[s])
                else:
                    gradients[s].append(end)
                    gate_open = gate_open or held[s] >= gate
                continue
            mb = next_backward[s]
            if mb < len(gradients[s]) and gradients[s][mb] <= tick and (s < last or gate_open):
                end = tick + sizes[mb] * backward[s]
                next_backward[s] += 1
                busy_until[s] = end
                running_backward[s] = True
                if s > 0:
                    gradients[s - 1].append(end + link[s - 1])
        tick += 1
    return tick - 1


def by_events(stages, microbatches, drain_depth, forward, backward, link, sizes):
    """From event to event, so that long actions cost no more than short ones."""
    last = stages - 1
    credits = credits_of(stages, drain_depth)
    gate = min(microbatches, min(credits))
    gate_open = False
    next_forward = [0] * stages
    next_backward = [0] * stages
    held = [0] * stages
    busy = [0] * stages  # 1: a forward, 2: a backward
    arrived = [0] * stages
    gradients = [0] * stages
    arrived[0] = microbatches
    events = []  # (time, stage, what): 0 the end of an action, 1 an input, 2 a gradient
    touched = set(range(stages))
    now = 0
    while True:
        for s in touched:
            if busy[s]:
                continue
            mb = next_forward[s]
            if mb < arrived[s] and held[s] < credits[s]:
                next_forward[s] += 1
                held[s] += 1
                busy[s] = 1
                end = now + sizes[mb] * forward[s]
                if s < last:
                    heapq.heappush(events, (end + link[s], s + 1, 1))
                else:
                    gate_open = gate_open or held[s] >= gate
                heapq.heappush(events, (end, s, 0))
                continue
            mb = next_backward[s]
            if mb < gradients[s] and (s < last or gate_open):
                next_backward[s] += 1
                busy[s] = 2
                end = now + sizes[mb] * backward[s]
                if s > 0:
                    heapq.heappush(events, (end + link[s - 1], s - 1, 2))
                heapq.heappush(events, (end, s, 0))
        if not events:
            return now
        now = events[0][0]
        touched = set()
        while events and events[0][0] == now:
            _, s, what = heapq.heappop(events)
            touched.add(s)
            if what == 1:
                arrived[s] += 1
            elif what == 2:
                gradients[s] += 1
            else:
                if busy[s] == 2:
                    held[s] -= 1
                elif s == last:
                    gradients[s] += 1
                busy[s] = 0
