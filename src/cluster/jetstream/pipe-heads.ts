/**
 * Finds the newest message of every pipe: the first time by the last frame of each subject, later by the headers of new
 * frames in the stream. Used every few seconds to find lost notifications.
 */
import type { Heads } from '../../log/buffer.ts'
import { SerialQueue } from '../../platform/serial-queue.ts'
import { FramePull } from './frame-pull.ts'
import { FrameStream, type PullRoom } from './frame-stream.ts'
import { bufferSubjects, pipeIdOf, seqOf } from './frames.ts'
import { headOf } from './stored-frame.ts'
import type { StreamClient, StreamMessage } from './stream-client.ts'

const lot = { messages: 2_048, bytes: 512 * 1024 }

export class PipeHeads {
  readonly #client: StreamClient
  readonly #room: PullRoom
  readonly #cluster: string
  readonly #pipes = new Map<string, number>()
  #newestSeq = 0
  #stream: FrameStream | null = null
  readonly #looks = new SerialQueue()

  constructor(client: StreamClient, room: PullRoom, cluster: string) {
    this.#client = client
    this.#room = room
    this.#cluster = cluster
  }

  /** Null when nothing is newer. */
  async after(afterSeq: number): Promise<Heads | null> {
    await this.#looks.run(() => this.#look())
    return this.#newestSeq > afterSeq ? { newestSeq: this.#newestSeq, pipes: new Map(this.#pipes) } : null
  }

  async #look(): Promise<void> {
    const filter = bufferSubjects(this.#cluster)
    if (this.#stream === null) {
      const { lastSeq } = await this.#client.state()
      await this.#findLast(filter)
      const after = { afterStreamSeq: lastSeq, isEndLikely: true }
      this.#stream = new FrameStream(this.#client, this.#room, { filter, headersOnly: true, ...after })
    }
    for (;;) {
      const message = this.#stream.shift() ?? (await this.#stream.next())
      if (message === null) return
      this.#note(message)
    }
  }

  /** Reads one frame per subject: of each pipe, and of each chain of keyed frames. */
  async #findLast(filter: string): Promise<void> {
    const pull = await FramePull.open(
      this.#client,
      { filter, start: 'last_of_subjects', headersOnly: true },
      lot,
    )
    try {
      for (let message = await pull.next(); message !== null; message = await pull.next()) this.#note(message)
    } finally {
      pull.close()
    }
  }

  #note(message: StreamMessage): void {
    const head = headOf(message)
    if (head === null) return
    const seq = seqOf(message.streamSeq, head.messages - 1)
    const pipeId = pipeIdOf({ cluster: this.#cluster, subject: message.subject })
    if (seq > (this.#pipes.get(pipeId) ?? 0)) this.#pipes.set(pipeId, seq)
    this.#newestSeq = Math.max(this.#newestSeq, seq)
  }
}
