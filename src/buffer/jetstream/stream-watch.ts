/** What the stream holds and how much more it takes, asked again every second. */
import type { JetStreamAccountStats, JetStreamManager, StreamInfo } from '@nats-io/jetstream'
import { streamName } from './frames.ts'
import type { JetStreamSpec } from './spec.ts'

const everyMs = 1_000

export interface StreamRoom {
  bytes: number
  frames: number
  /** Of the oldest frame, ms since the epoch; null when there is none. */
  oldestMs: number | null
  /** Until `max_bytes` or the account's limit is reached. */
  freeBytes: number
  /** Messages of the stream that its server found damaged, and left out. */
  lostFrames: number
}

export class StreamWatch {
  readonly #manager: JetStreamManager
  readonly #spec: JetStreamSpec
  #room: StreamRoom
  /** False while nobody answers for the stream. */
  #isAnswering = true
  #timer: NodeJS.Timeout | null = null
  #isClosed = false

  constructor(manager: JetStreamManager, spec: JetStreamSpec, info: StreamInfo) {
    this.#manager = manager
    this.#spec = spec
    this.#room = roomOf(info, null, spec)
    this.#later()
  }

  get room(): StreamRoom {
    return this.#room
  }

  get isAnswering(): boolean {
    return this.#isAnswering
  }

  close(): void {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #later(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#look(), everyMs)
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    try {
      const [info, account] = await Promise.all([
        this.#manager.streams.info(streamName(this.#spec.cluster)),
        this.#manager.getAccountInfo(),
      ])
      this.#room = roomOf(info, account, this.#spec)
      this.#isAnswering = true
    } catch {
      // The appender says why: its appends are rejected.
      this.#isAnswering = false
    }
    this.#later()
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
