/**
 * Reads messages of a stream in order and in batches, with an ephemeral pull consumer. The next batch is requested
 * before the last one is used up.
 *
 *   pulling ──a message is out of order or late, or the server ends a request unexpectedly──▶ broken
 *
 * A broken consumer is closed and replaced by one that starts at the reader's sequence. A consumer runs on one replica,
 * which can lag: when it has no more messages, the leader can still have some.
 */
import { Waits } from '../../platform/waits.ts'
import type { NatsMessage, Subscription } from '../nats/headers.ts'
import type { ConsumerPlan, StreamClient, StreamMessage } from './stream-client.ts'

export interface PullSize {
  messages: number
  /** Bytes per batch, including headers. */
  bytes: number
}

/** The lifetime of a request; it is repeated while messages are wanted. */
const requestMs = 10_000
/** The time within which an existing message must arrive. */
const lateMs = 3_000

export class FramePull {
  readonly #client: StreamClient
  readonly #consumer: string
  readonly #inbox: string
  readonly #size: PullSize
  readonly #subscription: Subscription
  readonly #queue: StreamMessage[] = []
  #queueStart = 0
  /** Messages that the current request can still deliver; 0 without a request. */
  #wanted = 0
  /** The size of the newest request. */
  #lot = 0
  #delivered = 0
  /** Messages after the newest one that arrived, according to the consumer's server. */
  #pending: number
  #requests = 0
  readonly #arrivals = new Waits()
  #isBroken = false
  #isTooLarge = false

  static async open(client: StreamClient, plan: ConsumerPlan, size: PullSize): Promise<FramePull> {
    const { name, pending } = await client.createConsumer(plan)
    return new FramePull(client, name, pending, size)
  }

  private constructor(client: StreamClient, consumer: string, pending: number, size: PullSize) {
    this.#client = client
    this.#consumer = consumer
    this.#pending = pending
    this.#size = size
    this.#inbox = client.newInbox()
    this.#subscription = client.nats.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => (error === null ? this.#receive(message) : this.#break()),
    })
  }

  /** The number of the filter's messages after the newest that arrived. */
  get pending(): number {
    return this.#pending
  }

  get isBroken(): boolean {
    return this.#isBroken
  }

  /** The next message exceeds the batch size. */
  get isTooLarge(): boolean {
    return this.#isTooLarge
  }

  /** Takes a message that has already arrived; null when there is none. */
  shift(): StreamMessage | null {
    const message = this.#queue[this.#queueStart]
    if (message === undefined) return null
    this.#queueStart += 1
    if (this.#queueStart === this.#queue.length || this.#queueStart >= 1_024) {
      this.#queue.splice(0, this.#queueStart)
      this.#queueStart = 0
    }
    this.#ask()
    return message
  }

  /** Null when its server has no more for now, when it is broken, or when the next message is too large. */
  async next(): Promise<StreamMessage | null> {
    const deadline = performance.now() + lateMs
    for (;;) {
      const message = this.shift()
      if (message !== null) return message
      if (this.#isBroken || this.#isTooLarge || this.#pending === 0) return null
      this.#ask()
      const leftMs = deadline - performance.now()
      if (leftMs <= 0) {
        this.#break()
        return null
      }
      await this.#arrivals.wait(leftMs)
    }
  }

  /** The leader has another message, so it must arrive here too. */
  expect(): void {
    this.#pending = Math.max(1, this.#pending)
  }

  close(): void {
    this.#isBroken = true
    this.#subscription.unsubscribe()
    this.#client.deleteConsumer(this.#consumer)
    this.#arrivals.end()
  }

  /** Requests the next batch when half of this one is used. */
  #ask(): void {
    const queued = this.#queue.length - this.#queueStart
    if (this.#isBroken || this.#wanted > 0 || queued > this.#size.messages / 2) return
    const { messages, bytes } = this.#size
    const request = { batch: messages, max_bytes: bytes, expires: requestMs * 1e6 }
    this.#wanted = messages
    this.#lot = 0
    this.#requests += 1
    const reply = `${this.#inbox}.${this.#requests}`
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${this.#client.stream}.${this.#consumer}`
    try {
      this.#client.nats.publish(subject, JSON.stringify(request), { reply })
    } catch {
      this.#break()
    }
  }

  #receive(message: NatsMessage): void {
    if (message.subject.startsWith(this.#inbox)) this.#ended(message)
    else this.#take(message)
    this.#arrivals.end()
  }

  /** The reply subject contains the position: `$JS.ACK.stream.consumer.tries.stream_seq.consumer_seq.time.pending`. */
  #take(message: NatsMessage): void {
    const place = (message.reply ?? '').split('.')
    const consumer = place.at(-6)
    const streamSeq = Number(place.at(-4))
    const consumerSeq = Number(place.at(-3))
    this.#delivered += 1
    if (consumer !== this.#consumer || consumerSeq !== this.#delivered) {
      this.#break()
      return
    }
    this.#wanted = Math.max(0, this.#wanted - 1)
    this.#lot += 1
    this.#pending = Number(place.at(-1))
    const { subject, headers, data } = message
    this.#queue.push({ streamSeq, subject, headers, data, storedMs: null })
  }

  /** A request has ended. Only the newest request counts. */
  #ended(message: NatsMessage): void {
    if (!message.subject.endsWith(`.${this.#requests}`)) return
    const code = message.headers?.code ?? 0
    const description = message.headers?.description ?? ''
    this.#wanted = 0
    if (code === 404 || code === 408) return
    if (code === 409 && description.includes('MaxBytes')) {
      this.#isTooLarge = this.#lot === 0
      return
    }
    this.#break()
  }

  #break(): void {
    this.#isBroken = true
    this.#arrivals.end()
  }
}
