/** Counts of the requests to a bucket. Apart from the client, which loads the SDK. */

/** Requests that were sent, in the classes that stores charge for. A part of an upload counts as a put. */
export interface BucketCounters {
  requests: Record<RequestKind, number>
  /** Requests without success: also conditions that were not met, and objects that do not exist. */
  failedRequests: number
  sentBytes: number
  receivedBytes: number
}
export type RequestKind = 'put' | 'get' | 'list' | 'remove'

export function newBucketCounters(): BucketCounters {
  return {
    requests: { put: 0, get: 0, list: 0, remove: 0 },
    failedRequests: 0,
    sentBytes: 0,
    receivedBytes: 0,
  }
}
