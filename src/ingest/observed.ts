/**
 * Observes ingest requests for `/metrics`, in memory that ingest's threads share: the time from the last byte of a
 * request to its 202, and the errors of responses, by code. The hot path adds to plain numbers of its own thread.
 */
import { type ErrorCode, errorCatalogue } from '../contract/errors.ts'
import { Histogram, secondsBounds } from '../platform/histogram.ts'

/** As it is handed to another thread. */
export interface ObservedMemory {
  latency: SharedArrayBuffer
  errors: SharedArrayBuffer
}

const codes = Object.keys(errorCatalogue) as ErrorCode[]
/** Shown from the start: of a counter that begins with its first error, rules would miss that one. */
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

  /** `slot`: the slot of the observing thread, out of `slots`. */
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

  /** A request on the ingest path was answered with it. */
  failed(code: ErrorCode): void {
    this.#errors[this.#at + placeOf.get(code)!]! += 1
  }

  /** The errors of all threads: the codes that occurred, and all codes of 5xx. */
  errors(): [code: ErrorCode, requests: number][] {
    const slots = this.#errors.length / codes.length
    return codes.flatMap((code, index): [ErrorCode, number][] => {
      let requests = 0
      for (let slot = 0; slot < slots; slot += 1) requests += this.#errors[slot * codes.length + index]!
      return requests === 0 && !ours.has(code) ? [] : [[code, requests]]
    })
  }
}
