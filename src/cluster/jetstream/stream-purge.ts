/** The requests of retention to the stream's leader. */
import { AckPolicy, DeliverPolicy, type JetStreamManager, type StreamInfo } from '@nats-io/jetstream'
import { pipeSubjects, streamName, totalsStreamName, totalsSubject } from './frames.ts'

export class StreamPurge {
  readonly #manager: JetStreamManager
  readonly #cluster: string
  readonly #stream: string

  constructor(manager: JetStreamManager, cluster: string) {
    this.#manager = manager
    this.#cluster = cluster
    this.#stream = streamName(cluster)
  }

  info(): Promise<StreamInfo> {
    return this.#manager.streams.info(this.#stream)
  }

  /** The newest sequence stored before this time; the one before the first when there is none. */
  async lastBefore(timeMs: number): Promise<number> {
    // A new consumer knows its start sequence; no message is requested from it.
    const { name, delivered } = await this.#manager.consumers.add(this.#stream, {
      deliver_policy: DeliverPolicy.StartTime,
      opt_start_time: new Date(timeMs).toISOString(),
      ack_policy: AckPolicy.None,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: 5_000 * 1_000_000,
    })
    await this.#manager.consumers.delete(this.#stream, name).catch(() => {})
    return delivered.stream_seq
  }

  /** Purges a pipe's frames before this one. Returns their number. */
  async before(pipeId: string, streamSeq: number): Promise<number> {
    const filter = pipeSubjects({ cluster: this.#cluster, pipeId })
    return (await this.#manager.streams.purge(this.#stream, { filter, seq: streamSeq })).purged
  }

  /** Purges all frames of a pipe. */
  async pipe(pipeId: string): Promise<number> {
    const { purged } = await this.#manager.streams.purge(this.#stream, {
      filter: pipeSubjects({ cluster: this.#cluster, pipeId }),
    })
    await this.#manager.streams.purge(totalsStreamName(this.#cluster), {
      filter: totalsSubject({ cluster: this.#cluster, pipeId }),
    })
    return purged
  }
}
