/** A parser thread: `prepare` for the bodies that would hold up the main thread, one after another. */
import assert from 'node:assert'
import { parentPort } from 'node:worker_threads'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { ParseRequest, ParseResult } from './parser-protocol.ts'
import { type Prepared, prepare } from './prepare.ts'
import { openScanner } from './scanner.ts'

const port = parentPort
assert(port !== null, 'runs as a thread')
const scanner = openScanner(resourceLimits.parserScannerBytes)

port.on('message', (request: ParseRequest) => {
  const result = resultOf(request)
  port.postMessage(result, result.kind === 'prepared' ? [result.body.buffer as ArrayBuffer] : [])
})

function resultOf({ bytes, preparation }: ParseRequest): ParseResult {
  try {
    const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    // Nothing is reserved here: main counts the result when it has it, and at most one per thread is under way.
    const prepared = prepare(scanner, given, preparation, () => {})
    assert(prepared !== null, 'a thread parses whatever it is given')
    const { recordCount, bodyHash } = prepared
    return { kind: 'prepared', recordCount, body: ownMemory(prepared), bodyHash }
  } catch (error) {
    if (!(error instanceof ApiError)) return { kind: 'failed', message: String(error) }
    const { code, message, details } = error
    return { kind: 'rejected', error: { code, message, details } }
  }
}

/** Neither the scanner's memory nor that which small Buffers share may be transferred. */
function ownMemory({ body, isLent }: Prepared): Uint8Array {
  return isLent || body.length <= Buffer.poolSize ? new Uint8Array(body) : body
}
