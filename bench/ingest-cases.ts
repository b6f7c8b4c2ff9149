/** The requests that the ingest bench sends. */
import { record, recordArray } from './records.ts'

export interface Case {
  name: string
  /** Sent in turn. */
  bodies: readonly string[]
  /** The records of each request. */
  records: number
  connections: number
}

export const single: Case = {
  name: 'single record',
  bodies: Array.from({ length: 256 }, (_, at) => record(at)),
  records: 1,
  connections: 64,
}

export const arrayOf100: Case = {
  name: 'array of 100',
  bodies: Array.from({ length: 16 }, (_, at) => recordArray(at * 100, 100)),
  records: 100,
  connections: 16,
}
