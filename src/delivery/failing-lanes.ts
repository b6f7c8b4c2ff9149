/**
 * Logs when a lane starts to fail and when that ends (contract/state-words.ts), once each.
 *
 *   (works) ──isFailing──▶ failing: lane.failing ──no failure for a minute──▶ ended: lane.failing_ended
 *
 * When a destination fails with occasional successes, the lane stays in one episode: the log gets one line, not one per
 * batch. A restart forgets episodes, so a lane that still fails is logged again.
 */
import { wordsOf } from '../contract/destination-words.ts'
import { failingAfterMs, isFailing } from '../contract/state-words.ts'
import type { Logger } from '../platform/log.ts'
import type { Clock } from './clock.ts'
import type { Lane } from './lane.ts'
import { isoTime } from './lane-status.ts'

interface Episode {
  /** Time of its first failure. */
  sinceMs: number
  /** Monotonic time since which nothing has failed; null while something fails. */
  quietAt: number | null
}

export class FailingLanes {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #episodes = new Map<string, Episode>()

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock
    this.#log = log
  }

  /** Called every few seconds. A lane that is no longer in the map ends its episode without a log line. */
  look(lanes: ReadonlyMap<string, Lane>): void {
    for (const id of this.#episodes.keys()) if (!lanes.has(id)) this.#episodes.delete(id)
    for (const lane of lanes.values()) {
      const episode = this.#episodes.get(lane.spec.destinationId)
      if (episode !== undefined) this.#continueEpisode(lane, episode)
      else if (isFailingNow(lane, this.#clock.now())) this.#begin(lane)
    }
  }

  #begin(lane: Lane): void {
    const { row, spec } = lane
    const sinceMs = row.firstFailedMs!
    this.#episodes.set(spec.destinationId, { sinceMs, quietAt: null })
    this.#log.warn(
      {
        ...named(lane),
        since: isoTime(sinceMs),
        attempts: row.attempts,
        class: row.lastError?.class,
        code: row.lastError?.code,
        message: row.lastError?.message,
      },
      'lane.failing',
    )
  }

  #continueEpisode(lane: Lane, episode: Episode): void {
    const { row, spec } = lane
    if (row.firstFailedMs !== null && spec.status !== 'blocked') {
      episode.quietAt = null
      return
    }
    const now = this.#clock.monotonicMs()
    episode.quietAt ??= now
    if (now - episode.quietAt < failingAfterMs) return
    this.#episodes.delete(spec.destinationId)
    const fields = { ...named(lane), since: isoTime(episode.sinceMs), status: spec.status }
    this.#log.info(fields, 'lane.failing_ended')
  }
}

function isFailingNow({ row, spec }: Lane, nowMs: number): boolean {
  // The fast path for nearly all lanes.
  if (row.firstFailedMs === null) return false
  const facts = {
    lane_state: spec.status === 'blocked' ? 'blocked' : 'retrying',
    attempts: row.attempts,
    first_failed_ts: isoTime(row.firstFailedMs),
    last_error: row.lastError,
  } as const
  return isFailing(facts, nowMs)
}

function named({ spec }: Lane) {
  return {
    destination_id: spec.destinationId,
    pipe_id: spec.pipeId,
    pipe: spec.pipeName,
    destination: spec.name ?? wordsOf(spec.type).kind,
  }
}
