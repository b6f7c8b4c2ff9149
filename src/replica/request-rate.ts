/** How many requests to the bucket there were within the last hour, from samples of the counters. */
import { hourMs, minuteMs } from '../platform/quantities.ts'
import type { BucketCounters } from './bucket-counters.ts'

type Requests = BucketCounters['requests']

interface Sample {
  atMs: number
  requests: Requests
}

/** At least this long is measured, so that the first second of a run is not multiplied to a day. */
const shortestMs = minuteMs
export const sampleEveryMs = minuteMs

export class RequestRate {
  readonly #samples: Sample[]

  /** Times are monotonic, in ms. */
  constructor(nowMs: number) {
    this.#samples = [{ atMs: nowMs, requests: { put: 0, get: 0, list: 0, remove: 0 } }]
  }

  /** Call it every `sampleEveryMs`. The newest sample that is at least an hour old stays. */
  sample(nowMs: number, requests: Requests): void {
    this.#samples.push({ atMs: nowMs, requests: { ...requests } })
    while (this.#samples.length > 1 && this.#samples[1]!.atMs <= nowMs - hourMs) this.#samples.shift()
  }

  /** The number in a period at the rate of the last hour, or since the first sample. */
  within(periodMs: number, nowMs: number, requests: Requests): Requests {
    const [first] = this.#samples as [Sample]
    const factor = periodMs / Math.max(shortestMs, nowMs - first.atMs)
    const scaled = (kind: keyof Requests) => Math.round((requests[kind] - first.requests[kind]) * factor)
    return { put: scaled('put'), get: scaled('get'), list: scaled('list'), remove: scaled('remove') }
  }
}
