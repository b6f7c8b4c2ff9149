/**
 * Measures ingest requests for `/metrics`, in memory shared by the ingest threads: the time from the last byte of a
 * request to its 202, and error responses by code. The hot path only adds to numbers of its own thread.
 */
import { type ErrorCode, errorCatalogue } from '../contract/errors.ts'
import { Histogram, secondsBounds } from '../platform/histogram.ts'

/** The part that is sent to another thread. */
export interface ObservedMemory {
  latency: SharedArrayBuffer
  errors: SharedArrayBuffer
}

const codes = Object.keys(errorCatalogue) as ErrorCode[]
/** Exported from the start with 0: an alert rule would miss the first error of a counter that starts at 1. */
const ours = new Set<ErrorCode>([
  'buffer_unavailable',
  'configuration_error',
  'server_error',
  'storage_unavailable',
])
const placeOf = new Map(codes.map((code, index) => [code, index]))

export class IngestObserved {
  readonly latency: Histogram
  readonly #errors: Float64Array
  readonly #at: number

  /** `slot` is the slot of the observing thread, one of `slots`. */
  constructor({
    slot = 0,
    slots = 1,
    memory,
  }: { slot?: number; slots?: number; memory?: ObservedMemory } = {}) {
    this.latency = new Histogram(secondsBounds, { slot, slots, memory: memory?.latency })
    this.#errors = new Float64Array(
      memory?.errors ?? new SharedArrayBuffer(slots * codes.length * Float64Array.BYTES_PER_ELEMENT),
    )
    this.#at = slot * codes.length
  }

  get memory(): ObservedMemory {
    const { buffer } = this.#errors
    if (!(buffer instanceof SharedArrayBuffer)) throw new TypeError('counts of threads are shared')
    return { latency: this.latency.memory, errors: buffer }
  }

  /** Counts an error response on the ingest path. */
  failed(code: ErrorCode): void {
    this.#errors[this.#at + placeOf.get(code)!]! += 1
  }

  /** Errors of all threads: codes that occurred, and all 5xx codes. */
  errors(): [code: ErrorCode, requests: number][] {
    const slots = this.#errors.length / codes.length
    return codes.flatMap((code, index): [ErrorCode, number][] => {
      let requests = 0
      for (let slot = 0; slot < slots; slot += 1) requests += this.#errors[slot * codes.length + index]!
      return requests === 0 && !ours.has(code) ? [] : [[code, requests]]
    })
  }
}
