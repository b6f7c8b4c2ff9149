/** Reads the stream's content and free space every second. */
import type { JetStreamAccountStats, JetStreamManager, StreamInfo } from '@nats-io/jetstream'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { endsWithin } from '../../platform/deadline.ts'
import { Repeated } from '../../platform/repeated.ts'
import { streamName } from './frames.ts'

const everyMs = 1_000
/** Shorter than the time limit of an append, so that a load balancer notices a silent stream before clients do. */
const answerWithinMs = 2_000

export interface StreamRoom {
  bytes: number
  frames: number
  /** Time of the oldest frame, ms since the epoch; null when there is none. */
  oldestMs: number | null
  /** The bytes left until `max_bytes` or the account's limit is reached. */
  freeBytes: number
  /** Messages that the stream's server found damaged and left out. */
  lostFrames: number
}

export class StreamWatch {
  readonly #manager: JetStreamManager
  readonly #spec: JetStreamSpec
  #room: StreamRoom
  /** False while the stream does not respond. */
  #isAnswering = true
  #answeredFromMs = performance.now()
  readonly #looks = new Repeated(everyMs, () => this.#look())

  constructor(manager: JetStreamManager, spec: JetStreamSpec, info: StreamInfo) {
    this.#manager = manager
    this.#spec = spec
    this.#room = roomOf(info, null, spec)
  }

  get room(): StreamRoom {
    return this.#room
  }

  get isAnswering(): boolean {
    return this.#isAnswering
  }

  /** `performance.now()` at the start of the newest read that was answered. */
  get answeredFromMs(): number {
    return this.#answeredFromMs
  }

  close(): void {
    void this.#looks.close()
  }

  async #look(): Promise<void> {
    const fromMs = performance.now()
    try {
      const asked = Promise.all([
        this.#manager.streams.info(streamName(this.#spec.cluster)),
        this.#manager.getAccountInfo(),
      ])
      this.#isAnswering = await endsWithin(answerWithinMs, asked)
      if (!this.#isAnswering) return
      this.#room = roomOf(...(await asked), this.#spec)
      this.#answeredFromMs = fromMs
    } catch {
      // Not logged here: the appender logs why its appends are rejected.
      this.#isAnswering = false
    }
  }
}

function roomOf(
  { state, config }: StreamInfo,
  account: JetStreamAccountStats | null,
  { maxBytes }: JetStreamSpec,
): StreamRoom {
  const limitBytes = config.max_bytes > 0 ? config.max_bytes : maxBytes
  const accountLimit = account?.limits.max_storage ?? -1
  const accountFree = accountLimit < 0 ? Number.POSITIVE_INFINITY : accountLimit - (account?.storage ?? 0)
  return {
    bytes: state.bytes,
    frames: state.messages,
    oldestMs: state.messages === 0 ? null : Date.parse(state.first_ts),
    freeBytes: Math.max(0, Math.min(limitBytes - state.bytes, accountFree)),
    lostFrames: state.lost?.msgs?.length ?? 0,
  }
}
