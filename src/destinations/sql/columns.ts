/** Column functions that the database drivers share, in addition to the contract's column rules. Pure. */
import type { ColumnMapping } from '../../contract/destination.ts'

/** The value of a generated dedupe id: the same for every attempt. */
export function generatedId(msgId: string, index: number): string {
  return `${msgId}:${index}`
}

/** ISO 8601 in UTC; for a column mapped as `number`, ms since the epoch. */
export function receivedAtValue(type: ColumnMapping['column_type'], receivedMs: number): string | number {
  return type === 'number' ? receivedMs : new Date(receivedMs).toISOString()
}

/** Names of this machine: there is no network between pipectl and the server. */
export function isOwnHost(host: string): boolean {
  return host === 'localhost' || host === '127.0.0.1'
}
