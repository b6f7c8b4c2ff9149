/**
 * The feed of a buffer in JetStream: the appending node announces commits to every node on core NATS. Lost announcements
 * are found by polling (`BufferReader.heads`).
 *
 * The purging node announces drops. Drops by the stream itself show in its first sequence, which is checked every few
 * seconds.
 */
import Type from 'typebox'
import { fits } from '../../contract/validate.ts'
import type { BufferFeed, LowWatermark } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection, NatsMessage } from '../nats/headers.ts'
import { count, parsed } from '../protocol.ts'
import { commitsSubject, droppedSubject, streamName } from './frames.ts'
import type { RetentionKeeper } from './retention.ts'
import { StreamClient } from './stream-client.ts'

/** The newest seq of each pipe. The server's `max_payload` limits their number. */
type Commits = [pipeId: string, seq: number][]

const lookMs = 5_000

/** Keeps a cluster's buffer within its limits, using the low watermarks of this process's pipes. */
type WatermarkKeeper = Pick<RetentionKeeper, 'report' | 'pipeDeleted' | 'onReportWanted' | 'close'>

export async function openJetStreamFeed(spec: JetStreamSpec, keeper?: WatermarkKeeper): Promise<BufferFeed> {
  const nats = await connectNats(spec.nats)
  const feed = new StreamFeed(nats, spec, keeper ?? null)
  // Commits are notified from now on.
  await nats.flush()
  return feed
}

class StreamFeed implements BufferFeed {
  readonly #nats: NatsConnection
  readonly #client: StreamClient
  readonly #keeper: WatermarkKeeper | null
  readonly #onCommitted: ((pipes: Commits) => void)[] = []
  readonly #onDropped: (() => void)[] = []
  #look: NodeJS.Timeout | null = null
  #firstSeq: number | null = null

  constructor(nats: NatsConnection, { cluster, replicas }: JetStreamSpec, keeper: WatermarkKeeper | null) {
    this.#nats = nats
    this.#client = new StreamClient(nats, streamName(cluster), replicas)
    this.#keeper = keeper
    nats.subscribe(commitsSubject(cluster), {
      callback: (error, message) => {
        const commits = error === null ? commitsIn(message) : []
        if (commits.length > 0) for (const listener of this.#onCommitted) listener(commits)
      },
    })
    nats.subscribe(droppedSubject(cluster), { callback: () => this.#notifyDropped() })
  }

  onCommitted(listener: (pipes: Commits) => void): void {
    this.#onCommitted.push(listener)
  }

  onDropped(listener: () => void): void {
    this.#onDropped.push(listener)
    if (this.#look !== null) return
    this.#look = setInterval(() => void this.#lookForDropped(), lookMs).unref()
    void this.#lookForDropped()
  }

  /** Records of a stream are not deleted one by one. */
  onErased(): void {}

  onReportWanted(listener: () => void): void {
    this.#keeper?.onReportWanted(listener)
  }

  reportLowWatermarks(watermarks: readonly LowWatermark[]): void {
    this.#keeper?.report(watermarks)
  }

  pipeDeleted(pipeId: string): void {
    this.#keeper?.pipeDeleted(pipeId)
  }

  close(): void {
    if (this.#look !== null) clearInterval(this.#look)
    this.#keeper?.close()
    void this.#nats.close()
  }

  async #lookForDropped(): Promise<void> {
    try {
      const { firstSeq } = await this.#client.state()
      if (this.#firstSeq !== null && firstSeq > this.#firstSeq) this.#notifyDropped()
      this.#firstSeq = firstSeq
    } catch {
      // The servers do not respond; the next check repeats this.
    }
  }

  #notifyDropped(): void {
    for (const listener of this.#onDropped) listener()
  }
}

const commits = Type.Array(Type.Tuple([Type.String({ maxLength: 64 }), count]))

/** Any client of the NATS account can publish on this subject, so invalid announcements are ignored. */
function commitsIn(message: NatsMessage): Commits {
  const found = parsed(message.string())
  return fits(commits, found) ? found : []
}
