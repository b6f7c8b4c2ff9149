/** A thread that runs one driver for one attempt or one check. `isolated-driver.ts` starts and terminates it. */
import { Buffer } from 'node:buffer'
import type { DriverCalls, DriverThreadData, LaneCalls } from '../../delivery/isolated-driver.ts'
import { type AttemptProgress, DeliveryError } from '../../destinations/driver.ts'
import {
  checkDestination,
  forgetDestination,
  inferForDestination,
  openDriver,
} from '../../destinations/drivers.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'

const host = new ThreadHost<DriverThreadData, DriverCalls, LaneCalls>({ errors: { DeliveryError } })
const { spec, settings } = host.data
const interrupt = new AbortController()
const { signal } = interrupt
const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))

host.serve({
  async deliver(batch, parks) {
    const driver = openDriver(spec, settings, (sha256) => host.call('pin', [sha256]))
    const progress: AttemptProgress = {
      stored: (records) => host.tell('stored', [records]),
      // The lane enforces the destination's rate. An aborted attempt stops waiting for its turn.
      beforeRequest: () => Promise.race([host.call('beforeRequest', []), aborted]),
      messageIdAt: (seq) => host.call('messageIdAt', [seq]),
      exchanged: ({ isFailed, describe }) => host.tell('exchanged', [isFailed, describe()]),
      park: parks ? (rejected) => host.call('park', [rejected]) : null,
    }
    await driver.deliver({ ...batch, messages: batch.messages.map(receivedMessage) }, signal, progress)
  },
  async check(sample) {
    const recent = sample?.recent ?? null
    const given = sample === null || recent === null ? sample : { ...sample, recent: receivedMessage(recent) }
    return await checkDestination(spec, settings, signal, given)
  },
  infer: (request) =>
    inferForDestination(spec, settings, signal, { ...request, bodies: request.bodies.map(received) }),
  forget: () => forgetDestination(spec, settings, signal),
  abort: () => interrupt.abort(),
})

/** Thread messages turn a Buffer into a Uint8Array. */
function receivedMessage<M extends { body: Uint8Array }>(message: M): M & { body: Buffer } {
  return { ...message, body: received(message.body) }
}

function received({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}
