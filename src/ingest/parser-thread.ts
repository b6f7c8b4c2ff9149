/** The parser thread: runs `prepare` for bodies that would block the main thread, one after another. */
import assert from 'node:assert'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { ThreadHost, Transferred } from '../platform/thread-calls.ts'
import { openScanner, type Preparation, type Prepared, prepare } from './prepare.ts'
import { loadPatterns, type Mismatched } from './schema/record-check.ts'

export interface ParserCalls {
  /** Throws the errors of `prepare`. `bytes` and the returned body are transferred. */
  prepare(bytes: Uint8Array, preparation: Preparation): ParsedBody
}

export interface ParsedBody {
  recordCount: number
  body: Uint8Array
  bodyHash: string | null
  mismatched: Mismatched | null
  parked: Prepared['parked']
}

const scanner = openScanner(resourceLimits.parserScannerBytes)

new ThreadHost<undefined, ParserCalls>({ errors: { ApiError } }).serve({
  async prepare(bytes, preparation) {
    if (preparation.schema !== null) await loadPatterns(preparation.schema)
    const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    // Reserves nothing: main reserves the result when it arrives, and each thread has at most one.
    const prepared = prepare(scanner, given, preparation, () => {})
    assert(prepared !== null, 'a thread parses whatever it is given')
    const { recordCount, bodyHash, mismatched, parked } = prepared
    const body = ownMemory(prepared)
    return new Transferred({ recordCount, body, bodyHash, mismatched, parked }, [body.buffer as ArrayBuffer])
  },
})

/** Copies when needed: the scanner's memory, and the memory that small Buffers share, cannot be transferred. */
function ownMemory({ body, isBorrowed }: Prepared): Uint8Array {
  return isBorrowed || body.length <= Buffer.poolSize ? new Uint8Array(body) : body
}
