/** What passes between main and the history thread: calls by number, responses by the same number. */

import type { BufferSpec } from '../../log/buffer-spec.ts'
import type { LogSettings } from '../../platform/log.ts'
import type { SentError } from '../../platform/thread-error.ts'
import type { History } from './history.ts'

export interface HistoryThreadData {
  buffer: BufferSpec
  log: LogSettings
}

export type HistoryMethod = keyof History

export type ToHistory =
  | { kind: 'call'; id: number; method: HistoryMethod; args: unknown[] }
  /** Waits end empty; the thread ends. */
  | { kind: 'close' }

export type FromHistory =
  | { kind: 'result'; id: number; value: unknown }
  | ({ kind: 'failure'; id: number } & SentError)
  /** Each second: its event loop turns. */
  | { kind: 'beat' }
