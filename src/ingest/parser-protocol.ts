/** The messages between main and a parser thread: one body at a time to the thread, and its result back. */
import type { ErrorCode } from '../contract/errors.ts'
import type { Preparation } from './prepare.ts'

/** `bytes` is transferred. */
export interface ParseRequest {
  bytes: Uint8Array
  preparation: Preparation
}

/** An ApiError as data: its class does not survive the way between threads. */
export interface RejectedBody {
  code: ErrorCode
  message: string
  details: Record<string, unknown>
}

export type ParseResult =
  /** `body` is transferred. */
  | { kind: 'prepared'; recordCount: number; body: Uint8Array; bodyHash: string | null }
  | { kind: 'rejected'; error: RejectedBody }
  /** A mistake of ours: the request gets 500, the thread goes on. */
  | { kind: 'failed'; message: string }
