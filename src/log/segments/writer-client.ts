/**
 * A thread's line to the writer: its appender, and questions. Main has one over the writer's own port; every other thread
 * that appends has one over a port that main had made for it (`OpenBuffer.shareAppender`).
 */
import type { Appended, Appender, AppenderPort } from '../buffer.ts'
import { FrameAppender } from './appender.ts'
import type { FromWriter, ToWriter, UnavailableReason } from './protocol.ts'

type Response = Extract<FromWriter, { kind: 'response' }>['value']

export class WriterClient {
  readonly appender: FrameAppender
  readonly #post: (message: ToWriter, transfer: ArrayBuffer[]) => void
  /** In the order they asked. */
  readonly #callers: { resolve(value: Response): void; reject(error: Error): void }[] = []
  #death: Error | null = null

  constructor(post: (message: ToWriter, transfer: ArrayBuffer[]) => void, reason: UnavailableReason | null) {
    this.#post = post
    this.appender = new FrameAppender(
      (frame) => post({ kind: 'frame', frame }, [frame.buffer]),
      async (pipeId, idempotency) =>
        (await this.ask({ kind: 'find_repeat', pipeId, idempotency })) as Appended | 'reused' | null,
    )
    this.appender.setUnavailable(reason)
  }

  ask(question: ToWriter): Promise<Response> {
    if (this.#death !== null) return Promise.reject(this.#death)
    return new Promise((resolve, reject) => {
      this.#callers.push({ resolve, reject })
      this.#post(question, [])
    })
  }

  receive(message: FromWriter): void {
    switch (message.kind) {
      case 'committed':
      case 'failed':
        this.appender.settle(message)
        break
      case 'status':
        this.appender.setUnavailable(message.status.unavailableReason)
        break
      case 'response':
        this.#callers.shift()?.resolve(message.value)
    }
  }

  /** The writer has died. What is in flight stays unsettled: nobody knows whether it is kept. */
  fail(error: Error): void {
    this.#death = error
    this.appender.setUnavailable('write_failed')
    for (const { reject } of this.#callers.splice(0)) reject(error)
  }
}

/** In the thread that the port was transferred to. */
export function openPortAppender(port: AppenderPort): Appender {
  const client = new WriterClient((message, transfer) => port.postMessage(message, transfer), null)
  port.on('message', (message: FromWriter) => client.receive(message))
  return client.appender
}
