/** A parser thread: `prepare` for the bodies that would hold up the main thread, one after another. */
import assert from 'node:assert'
import { parentPort } from 'node:worker_threads'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { ParseRequest, ParseResult } from './parser-protocol.ts'
import { prepare } from './prepare.ts'
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
    return { kind: 'prepared', ...prepared, body: ownMemory(prepared.body) }
  } catch (error) {
    if (!(error instanceof ApiError)) return { kind: 'failed', message: String(error) }
    const { code, message, details } = error
    return { kind: 'rejected', error: { code, message, details } }
  }
}

/** Small Buffers share their memory with others, which must not be transferred with them. */
function ownMemory(body: Buffer): Uint8Array {
  return body.length > Buffer.poolSize ? body : new Uint8Array(body)
}
