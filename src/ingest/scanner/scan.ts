/**
 * One pass over a body: AssemblyScript, compiled to dist/ingest/scanner.wasm by `npm run build` and called by
 * src/ingest/prepare.ts. It handles bodies that only need to be copied, and leaves all others to `prepareBody`:
 *
 *   body  ──▶  valid JSON, within its limits,  ──▶  each record's own text with the enrichment spliced in
 *              every required key there,       └─▶  0: `prepareBody` checks it and describes the error
 *              no enrichment key there
 *
 * It creates no values and allocates nothing; its memory is laid out in layout.ts.
 */
import { closeBracket, comma, invalid, lineFeed, openBrace, openBracket } from './bytes'
import { inputAt, readAhead, resultAt } from './layout'
import { beginOutput, outputLength, writeRecord } from './output'
import { afterRecord, afterSpace, isEmptyRecord, limitRecords, resetValueCount, valueCount } from './record'

export { watch } from './keys'
export {
  inputAt,
  insertionAt,
  keyBytesAt,
  keyTableAt,
  openContainers,
  readAhead,
  resultAt,
  schemaAt,
  watchedKeys,
} from './layout'
export { confirms } from './match'

let maxRecords: i32 = 0
let records: i32 = 0
let textBytes: usize = 0

export function limit(recordsPerBody: i32, keysPerRecord: i32, depth: i32, isNdjson: bool): void {
  maxRecords = recordsPerBody
  limitRecords(keysPerRecord, depth, isNdjson)
}

/**
 * Returns the length of the output, which starts at `outputStart`, or 0 when the body is left to `prepareBody`. The body
 * is the first `length` bytes of the input; the first `skipped` bytes of it (a byte order mark) are not JSON.
 */
export function scan(skipped: i32, length: i32, insertion: i32, isNdjson: bool): i32 {
  const end = inputAt + <usize>length
  store<u8>(end, 0)
  records = 0
  textBytes = 0
  resetValueCount()
  beginOutput(outputStart(length), insertion)
  const start = inputAt + <usize>skipped
  if (!(isNdjson ? scanLines(start, end) : scanDocument(start, end))) return 0
  store<u32>(resultAt, records)
  store<u32>(resultAt, <u32>textBytes, 4)
  store<u32>(resultAt, valueCount(), 8)
  return outputLength()
}

/** After the input and the bytes that a read can pass its end by. */
export function outputStart(length: i32): usize {
  return inputAt + <usize>length + <usize>readAhead
}

/** One record, or an array of records. */
function scanDocument(start: usize, end: usize): bool {
  let at = afterSpace(start)
  if (load<u8>(at) === openBracket) at = afterArray(at)
  else at = takeRecord(at)
  return at !== invalid && afterSpace(at) === end
}

function afterArray(start: usize): usize {
  let at = start
  do {
    at = takeRecord(afterSpace(at + 1))
    if (at === invalid) return invalid
    at = afterSpace(at)
  } while (load<u8>(at) === comma)
  return load<u8>(at) === closeBracket ? at + 1 : invalid
}

/** One record per line; blank lines are ignored. */
function scanLines(start: usize, end: usize): bool {
  let at = afterSpace(start)
  while (at !== end) {
    if (load<u8>(at) !== lineFeed) {
      at = takeRecord(at)
      if (at === invalid) return false
      at = afterSpace(at)
      if (at === end) break
      if (load<u8>(at) !== lineFeed) return false
    }
    at = afterSpace(at + 1)
  }
  return records > 0
}

function takeRecord(start: usize): usize {
  if (load<u8>(start) !== openBrace || records === maxRecords) return invalid
  const end = afterRecord(start)
  if (end === invalid || !writeRecord(start, end, isEmptyRecord())) return invalid
  records++
  textBytes += end - start
  return end
}
