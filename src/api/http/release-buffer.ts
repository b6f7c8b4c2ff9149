import { MessageChannel } from 'node:worker_threads'

const { port1: sinkPort, port2 } = new MessageChannel()
port2.close()
sinkPort.unref()

/**
 * Releases the memory of large bytes immediately. No other code may refer to them. The garbage collector is slow to
 * release memory outside its heap and lets up to 64 MiB of it accumulate in each thread. The memory of bytes that are
 * sent to a port without a receiver is released at once.
 */
export function releaseBuffer({ buffer }: Uint8Array<ArrayBuffer>): void {
  sinkPort.postMessage(null, [buffer])
}
