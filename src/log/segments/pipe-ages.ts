/**
 * The retention of single pipes: the messages of a pipe that are older than the pipe's own limit leave their segments by
 * compaction, delivered or not. Pure; asked once per segment, oldest first.
 *
 * An age is that of the segment's last message, so a message is removed at most the age of a segment
 * (`segmentMaxSeconds`) later than its limit.
 *
 * The work has a bound. Each limit of a pipe can cause one rewrite of a segment, and pipes that share a segment can have
 * as many limits as there are hours. So a segment that was rewritten `promptRewrites` times (its generation counts every
 * rewrite) is only rewritten once per day of its age: `promptRewrites` + `undeliveredHours` / 24 times for this reason.
 *
 * Messages leave from the pipe's oldest end only, like segments do by age: a message that is kept keeps all later ones of
 * its pipe, so that a segment with a wrong time cannot create a gap between messages that are kept.
 */
import { dayMs, hourMs } from '../../platform/quantities.ts'

import type { SegmentFacts } from './segment-facts.ts'

const promptRewrites = 8

export class PipeAges {
  readonly #limits: ReadonlyMap<string, number>
  readonly #clockMs: number
  /** Pipes with a message in an older segment that is not too old. */
  readonly #kept = new Set<string>()

  constructor(limits: ReadonlyMap<string, number>, clockMs: number) {
    this.#limits = limits
    this.#clockMs = clockMs
  }

  /** The pipes whose messages in this segment are all too old. The segment comes after those asked before. */
  expiredIn({ pipes, lastClockMs, generation }: SegmentFacts): ReadonlySet<string> {
    const expired = new Set<string>()
    const limits = this.#limits
    if (limits.size === 0) return expired
    const ageMs = this.#clockMs - lastClockMs
    const countedMs = generation < promptRewrites ? ageMs : Math.floor(ageMs / dayMs) * dayMs
    for (const pipeId of pipes.keys()) {
      const hours = limits.get(pipeId)
      if (hours === undefined || this.#kept.has(pipeId)) continue
      const limitMs = hours * hourMs
      if (ageMs < limitMs) this.#kept.add(pipeId)
      else if (countedMs >= limitMs) expired.add(pipeId)
    }
    return expired
  }
}
