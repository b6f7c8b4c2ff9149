/** The interface of the client. It is the same in browsers and in Node.js. */

export interface ClientOptions {
  /** The address of the daemon, `https://pipes.example.com`, or without `pipe`: the complete ingest URL of the pipe. */
  url: string
  /** The id of the pipe. */
  pipe?: string
  /**
   * The API key of a pipe that requires one. Everyone who opens a page can read the key in it: limit it to the scope
   * `ingest` and to this pipe.
   */
  key?: string
  batch?: BatchLimits
  queue?: QueueLimits
  /** The time limit of a request. Default: 30,000. */
  timeoutMs?: number
  /** Called with records that are discarded. They are counted in `stats().dropped` too. */
  onDrop?: (records: unknown[], reason: DropReason, problem?: Problem) => void
  /** Called after each attempt that failed. The records are kept and sent again. */
  onError?: (problem: Problem) => void
}

export interface BatchLimits {
  /** Default: 100 in browsers, 500 in Node.js. */
  maxRecords?: number
  /** The UTF-8 bytes of a request. Default and maximum in browsers: 16,384 and 60,000; in Node.js: 1,000,000 and 10,000,000. */
  maxBytes?: number
  /** How long the first record of a batch waits for others. Default: 1,000. */
  maxWaitMs?: number
}

/** The oldest records are discarded when a limit is exceeded. */
export interface QueueLimits {
  /** Default: 20,000 in browsers, 100,000 in Node.js. */
  maxRecords?: number
  /** Counted in characters. Default: 1,000,000 in browsers, 64,000,000 in Node.js. */
  maxBytes?: number
  /** Node.js only: keeps the queue in this directory, so that it survives the end of the process. Default: in memory. */
  directory?: string
}

/**
 * `full`: the queue exceeded its limits and these were the oldest records, or one record is larger than the limits.
 * `rejected`: the daemon rejects the record permanently. `expired`: the record was handed to the browser more than 23
 * hours ago while the page closed, and it is not known whether it arrived. `invalid`: it is not a JSON object.
 * `closed`: the client was closed before the record could be sent.
 */
export type DropReason = 'full' | 'rejected' | 'expired' | 'invalid' | 'closed'

export interface Problem {
  /** The status of the response, or 0 without a response. */
  status: number
  /** The error code of the daemon, `no_response`, or `http_STATUS` for responses of others. */
  error: string
  message: string
  /** The time until the next attempt. 0 for records that are dropped. */
  retryMs: number
}

export interface Stats {
  /** Records in the queue. In browsers, those of other tabs too. */
  pending: number
  /** Records that the daemon has confirmed to this client. */
  stored: number
  /** Records that were discarded. */
  dropped: number
}

export interface Client<R extends object = object> {
  /** Queues the record. Returns false if it is discarded. Never throws, and never waits. */
  send(record: R): boolean
  /**
   * Sends pending records now. Resolves with true once they are stored, and with false if an attempt failed: the
   * records are then sent later.
   */
  flush(): Promise<boolean>
  /**
   * Accepts no more records, and sends the pending ones for at most `waitMs` (default: 10,000). Resolves with the
   * number of records that were not stored. A queue in memory discards them as `closed`; a stored queue keeps them for
   * the next client.
   */
  close(waitMs?: number): Promise<number>
  stats(): Stats
}
