import { MessageChannel } from 'node:worker_threads'

const { port1: nowhere, port2 } = new MessageChannel()
port2.close()
nowhere.unref()

/**
 * Frees the memory of large bytes that no other code refers to, now: the garbage collector takes its time about
 * memory outside its heap, and lets up to 64 MiB of it gather in each thread. Bytes that are sent to a port without a
 * listener are gone at once.
 */
export function freeNow({ buffer }: Uint8Array<ArrayBuffer>): void {
  nowhere.postMessage(null, [buffer])
}
