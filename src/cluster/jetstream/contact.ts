/**
 * Reads from the stream's leader twice a second, over a connection of its own: a response shows that the buffer can be
 * read and appended to. A server that is disconnected from the leader does not count, even if the connection to that
 * server is fine.
 */
import type { BufferContact } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { ContactHistory } from '../../log/contact.ts'
import { Repeated } from '../../platform/repeated.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { streamName } from './frames.ts'

const everyMs = 500
const timeoutMs = 1_000

export async function openStreamContact(spec: JetStreamSpec): Promise<StreamContact> {
  return new StreamContact(await connectNats(spec.nats), streamName(spec.cluster))
}

export class StreamContact {
  readonly #nats: NatsConnection
  readonly #stream: string
  readonly #history = new ContactHistory(performance.now())
  readonly #asks = new Repeated(everyMs, () => this.#ask())

  constructor(nats: NatsConnection, stream: string) {
    this.#nats = nats
    this.#stream = stream
    void this.#ask()
  }

  get now(): BufferContact {
    return this.#history.at(performance.now())
  }

  async close(): Promise<void> {
    const ended = this.#asks.close()
    await this.#nats.close()
    await ended
  }

  async #ask(): Promise<void> {
    const sentMs = performance.now()
    try {
      const reply = await this.#nats.request(`$JS.API.STREAM.INFO.${this.#stream}`, '', {
        timeout: timeoutMs,
      })
      const { error } = reply.json() as { error?: unknown }
      if (error === undefined) this.#history.answered(sentMs)
      else this.#history.failed(performance.now())
    } catch {
      this.#history.failed(performance.now())
    }
  }
}
