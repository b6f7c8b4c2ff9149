/** The client for Node.js. Its queue is in memory, or in a directory (sdk/js/src/directory.ts). */
import { openClient } from './client.ts'
import { openDirectory } from './directory.ts'
import type { Client, ClientOptions } from './types.ts'

export type * from './types.ts'

/** Throws a TypeError if `options.url` is not a URL. Nothing else throws. */
export function createClient<R extends object = object>(options: ClientOptions): Client<R> {
  const { directory } = options.queue ?? {}
  return openClient(options, {
    store: (prefix, wake) => (directory === undefined ? undefined : openDirectory(directory, prefix, wake)),
    batch: { maxRecords: 500, maxBytes: 1_000_000, maxWaitMs: 1_000 },
    largestBatch: 10_000_000,
    queue: { maxRecords: 100_000, maxBytes: 64_000_000 },
  }).client
}
