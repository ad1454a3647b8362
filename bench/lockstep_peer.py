"""The law of the drain depth as one would write it down in an afternoon: tick by tick, stage by stage.

The peer of the planner's timelines. Whole-number costs and link times, plain Python, no packages.
"""


def makespan(stages, microbatches, drain_depth, forward, backward, link):
    """Ticks until everything has drained. `forward`, `backward`: ticks a stage; `link`: ticks a hop."""
    last = stages - 1
    credits = [1 + min(drain_depth, max(drain_depth, last) - s) for s in range(stages)]
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
                end = tick + forward[s]
                next_forward[s] += 1
                held[s] += 1
                busy_until[s] = end
                if s < last:
                    inputs[s + 1].append(end + link)
                else:
                    gradients[s].append(end)
                    gate_open = gate_open or held[s] >= gate
                continue
            mb = next_backward[s]
            if mb < len(gradients[s]) and gradients[s][mb] <= tick and (s < last or gate_open):
                end = tick + backward[s]
                next_backward[s] += 1
                busy_until[s] = end
                running_backward[s] = True
                if s > 0:
                    gradients[s - 1].append(end + link)
        tick += 1
    return tick - 1
